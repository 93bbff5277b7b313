"""What a spec may ask for as a whole, before its parts are read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from enum import IntEnum

from timerd.core.recurrence.errors import SpecError
from timerd.core.recurrence.periods import MAX_PERIOD_MS
from timerd.core.recurrence.times import listed
from timerd.model.recurrence import (
    MAX_INSTANTS_A_MINUTE,
    MAX_PARTS,
    MIN_PERIOD_MS,
    At,
    Every,
    Gap,
    Jitter,
    Repeat,
    Spec,
)

MAX_JITTER_MS = 366 * 86_400_000
_MINUTE_MS = 60_000
_KNOWN: dict[str, frozenset[IntEnum]] = {
    "gap": frozenset(Gap),
    "repeat": frozenset(Repeat),
    "jitter": frozenset(Jitter),
}


def check_limits(spec: Spec) -> None:
    """Raises SpecError."""
    if spec.fixed_delay_ms:
        _check_fixed_delay(spec)
    elif not 0 < len(spec.parts) <= MAX_PARTS:
        raise SpecError("parts", f"The spec has {len(spec.parts)} parts: give 1 to {MAX_PARTS}.")
    if spec.start_ms < 0 or spec.end_ms < 0:
        raise SpecError("start_ms", "The schedule starts or ends before 1970: give later instants, or none.")
    if 0 < spec.end_ms <= spec.start_ms:
        raise SpecError("end_ms", "The schedule ends before it starts: give an end after the start, or none.")
    if not 0 <= spec.jitter_ms <= MAX_JITTER_MS:
        raise SpecError("jitter_ms", f"The jitter is {spec.jitter_ms} ms: it must be from 0 to a year.")
    _check_known(spec)
    if (most := _most_in_a_minute(spec)) > MAX_INSTANTS_A_MINUTE:
        raise SpecError(
            "parts",
            f"The spec can have {most:,} instants in a minute: at most {MAX_INSTANTS_A_MINUTE:,} are allowed. "
            "What comes more often is a batch of tasks, each with its own delay.",
        )


def _check_fixed_delay(spec: Spec) -> None:
    if not MIN_PERIOD_MS <= spec.fixed_delay_ms <= MAX_PERIOD_MS:
        raise SpecError(
            "fixed_delay_ms", f"The fixed delay is {spec.fixed_delay_ms} ms: it must be from 1 s to 100 years."
        )
    if spec.parts or spec.exclude:
        raise SpecError(
            "fixed_delay_ms",
            "A fixed delay counts from the end of the task before, so it stands alone: take out cron, every, at, rrule "
            "and exclusions, or the delay.",
        )


def _check_known(spec: Spec) -> None:
    for field, value in (("gap", spec.gap), ("repeat", spec.repeat), ("jitter", spec.jitter)):
        if value not in _KNOWN[field]:
            names = ", ".join(each.name for each in sorted(_KNOWN[field]))
            raise SpecError(field, f"{value!r} is no {field}: give one of {names}.")


def _most_in_a_minute(spec: Spec) -> int:
    """Wall-clock times that are not listed have whole seconds, and a shifted gap lies over the hour that follows it."""
    every = sum(_MINUTE_MS // max(MIN_PERIOD_MS, part.period_ms) for part in spec.parts if isinstance(part, Every))
    at = {f"parts[{place}].at": part for place, part in enumerate(spec.parts) if isinstance(part, At)}
    others = any(not isinstance(part, Every | At) for part in spec.parts)
    return every + _most_listed(at) + (120 if others else 0)


def _most_listed(parts: Mapping[str, At]) -> int:
    """In any minute."""
    if not parts:
        return 0
    at_ms = sorted(each for field, part in parts.items() for times in listed(part, field) for each in times.at_ms)
    return max(bisect_left(at_ms, each + _MINUTE_MS) - place for place, each in enumerate(at_ms))
