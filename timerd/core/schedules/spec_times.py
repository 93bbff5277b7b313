"""A fixed delay: the next instant is so long after the end of the task before. It follows from what the register says,
and is recorded as every other one, so a holder that repeats a step computes nothing anew (W2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from timerd.model.recurrence import Spec
from timerd.model.schedules import Schedule


class SpecTimes(Protocol):
    """The instants of a spec (core/recurrence)."""

    def after(self, instant_ms: int, count: int) -> list[int]: ...

    def fire_at_ms(self, uid: bytes, instant_ms: int, next_ms: int | None) -> int: ...


@dataclass(frozen=True, slots=True)
class DelayTimes:
    """The one instant that is known; 0: there is none."""

    next_ms: int
    times: SpecTimes

    def after(self, instant_ms: int, count: int) -> list[int]:
        """What follows it has no instant yet."""
        return [self.next_ms] if count and self.next_ms > instant_ms else []

    def fire_at_ms(self, uid: bytes, instant_ms: int, next_ms: int | None) -> int:
        """The jitter is that of the spec."""
        return self.times.fire_at_ms(uid, instant_ms, next_ms)


def times_now(entry: Schedule, spec: Spec, times: SpecTimes) -> SpecTimes:
    """`times`, but of a fixed delay: what the register says of the task before."""
    return DelayTimes(_next_ms(entry, spec), times) if spec.fixed_delay_ms else times


def _next_ms(entry: Schedule, spec: Spec) -> int:
    """A delay that counts from no end begins when the revision came into force. Nothing is of the past of that, nor an
    instant that the revision before has started."""
    if entry.overlap.open is not None:
        return 0
    ended_ms = entry.overlap.ended_ms or entry.since_ms
    next_ms = max(ended_ms + spec.fixed_delay_ms, spec.start_ms, entry.since_ms + 1)
    while next_ms in entry.taken:
        next_ms += 1
    return next_ms if not spec.end_ms or next_ms < spec.end_ms else 0
