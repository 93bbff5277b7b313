"""Adaptive limits of queues, as options and as they show."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from timerd.commands.failures import WrongInput
from timerd.commands.times import parse_span

if TYPE_CHECKING:
    from timerd.client import Adaptive, QueueInfo

_BOUNDS = re.compile(r"([0-9]{1,7})-([0-9]{1,7})")


def adaptive_of(bounds: str | None, target: str | None) -> Adaptive | None:
    """None: nothing is said of it. Raises WrongInput."""
    from timerd.client import Adaptive

    if bounds is None:
        if target is not None:
            raise WrongInput("--adaptive-target belongs to --adaptive: give both, as --adaptive 2-100.")
        return None
    found = _BOUNDS.fullmatch(bounds)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise WrongInput(f"--adaptive is {bounds!r:.60}: give the least and the most, as 2-100.")
    return Adaptive(int(found[1]), int(found[2]), parse_span(target) if target is not None else None)


def adaptive_record(queue: QueueInfo) -> dict[str, Any] | None:
    adaptive = queue.adaptive
    if adaptive is None:
        return None
    return {
        "floor": adaptive.floor,
        "ceiling": adaptive.ceiling,
        "target_s": _target_s(adaptive),
        "limit": adaptive.limit,
    }


def adaptive_text(queue: QueueInfo) -> str:
    """ "7 of 2-100, target 30 s" """
    adaptive = queue.adaptive
    if adaptive is None:
        return ""
    target_s = _target_s(adaptive)
    within = f", target {target_s:g} s" if target_s is not None else ""
    return f"{adaptive.limit} of {adaptive.floor}-{adaptive.ceiling}{within}"


def _target_s(adaptive: Adaptive) -> float | None:
    """As the client gives it, it is a timedelta."""
    target = adaptive.target
    return None if target is None else target if isinstance(target, int | float) else target.total_seconds()
