"""Until when tasks are worth something: what cannot be is refused before anything is written."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from timerd.model.errors import Invalid
from timerd.model.expiries import NEVER_MS
from timerd.model.instants import shown
from timerd.model.task import Template

Int64s = npt.NDArray[np.int64]


def check_instant(template: Template, fire_at_ms: int) -> None:
    """Raises Invalid where no instant would be in time."""
    if 0 < template.expire_at_ms <= fire_at_ms:
        raise Invalid(
            f"The expire_time {shown(template.expire_at_ms)} is not after the fire_time {shown(fire_at_ms)}, so "
            "the task would never be delivered: give a later expire_time or none.",
            "template.expire_time",
        )


def check_expiries(template: Template, fire_at_ms: int, now_ms: int) -> None:
    """Of one task that is stored now. Raises Invalid."""
    check_instant(template, fire_at_ms)
    expiry_ms, soft_ms = template.expiry_ms(fire_at_ms), template.soft_expiry_ms(fire_at_ms)
    if 0 < expiry_ms <= now_ms:
        raise Invalid(
            f"The task expires at {shown(expiry_ms)}, which has passed (now it is {shown(now_ms)}), so it would never "
            f"be delivered: give a later fire_time, a later {_which(template, fire_at_ms)}, or none.",
            f"template.{_which(template, fire_at_ms)}",
        )
    if 0 < expiry_ms < soft_ms:
        name = "soft_expire_after" if template.soft_expire_after_ms else "soft_expire_time"
        raise Invalid(
            f"The task would be late from {shown(soft_ms)} on, and expires before that, at {shown(expiry_ms)}: give an "
            f"earlier {name} or none.",
            f"template.{name}",
        )


def check_spans(template: Template) -> None:
    """Of the tasks of a schedule, whose instants are not known yet. Raises Invalid."""
    if 0 < template.expire_after_ms < template.soft_expire_after_ms:
        raise Invalid(
            f"soft_expire_after ({template.soft_expire_after_ms} ms) is longer than expire_after "
            f"({template.expire_after_ms} ms), so a task would expire before it is late: give a shorter one or none.",
            "template.soft_expire_after",
        )


def bad_expiries(template: Template, fire_at_ms: Int64s, now_ms: int) -> npt.NDArray[np.bool_]:
    """(n,) of which `check_expiries` raises. What is no instant at all may be among them."""
    if not (template.expire_at_ms or template.expire_after_ms):
        return np.zeros(len(fire_at_ms), np.bool_)
    firm_ms = _earliest(template.expire_at_ms, template.expire_after_ms, fire_at_ms)
    soft_ms = _earliest(template.soft_expire_at_ms, template.soft_expire_after_ms, fire_at_ms)
    is_past: npt.NDArray[np.bool_] = (firm_ms <= now_ms) | (firm_ms <= fire_at_ms)
    return is_past | ((soft_ms > firm_ms) & (soft_ms < NEVER_MS))


def _earliest(at_ms: int, after_ms: int, fire_at_ms: Int64s) -> Int64s:
    ends_ms = fire_at_ms + after_ms if after_ms else np.full(len(fire_at_ms), NEVER_MS, np.int64)
    return np.minimum(ends_ms, at_ms or NEVER_MS)


def _which(template: Template, fire_at_ms: int) -> str:
    """What says so."""
    is_span = template.expire_after_ms and template.expiry_ms(fire_at_ms) == template.deadline_ms(fire_at_ms)
    return "expire_after" if is_span else "expire_time"
