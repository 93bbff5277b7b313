"""What is known of the calls that change one task, each with all its tries: when the last of them may take effect, and
what of the others still stands by then."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from timerd.core.protocol.request_memory import HELD_UP_MS

# Instances' clocks differ, and look before they write.
ROUNDED_MS = 200


def last_effect_ms(asked_ms: int, answered_ms: float = inf) -> float:
    """After that a call no longer undoes one that was made later: it was answered, or would be refused as held up."""
    return min(answered_ms, asked_ms + HELD_UP_MS + ROUNDED_MS if asked_ms else inf)


@dataclass
class Change:
    """A move, or a redrive. `tries`: those that were not refused, with the instants that they ask for. `before`: what
    the task had been delivered as when the first of them began."""

    request: str
    asked_ms: int
    first_ms: float
    before: set[bytes]
    tries: dict[int, int] = field(default_factory=dict)
    # What it was answered with, and when.
    fire_at_ms: int | None = None
    answered_ms: float = inf
    overtaken: bool = False

    @property
    def is_answered(self) -> bool:
        return self.answered_ms < inf

    @property
    def is_open(self) -> bool:
        return not self.is_answered and not self.overtaken and bool(self.tries)

    @property
    def may_be_at(self) -> set[int]:
        if self.overtaken:
            return set()
        return {self.fire_at_ms} if self.fire_at_ms is not None else set(self.tries.values())

    def comes_before(self, other: Change) -> bool:
        """For certain. Only what was asked for later makes one that was held up come too late."""
        is_later = other.asked_ms > self.asked_ms
        return other.first_ms > (last_effect_ms(self.asked_ms, self.answered_ms) if is_later else self.answered_ms)


class Changes:
    """Of one kind and one task, by request."""

    def __init__(self) -> None:
        self.of: dict[str, Change] = {}

    def asked(self, call: int, request: str, fire_at_ms: int, at_ms: float, asked_ms: int, before: set[bytes]) -> None:
        change = self.of.setdefault(request, Change(request, asked_ms, at_ms, before))
        if not change.is_answered:
            change.tries[call] = fire_at_ms

    def refused(self, call: int, request: str) -> None:
        """That try has done nothing; without any other the call begins anew when it is repeated."""
        change = self.of[request]
        change.tries.pop(call, None)
        if not (change.tries or change.is_answered or change.overtaken):
            del self.of[request]

    @property
    def is_any(self) -> bool:
        return bool(self.of)

    def may_be_done_since(self, at_ms: float) -> bool:
        """One is open, or was answered then or later."""
        return any(
            change.is_open or (change.is_answered and change.answered_ms >= at_ms) for change in self.of.values()
        )

    def instants(self, first_ms: int) -> set[int]:
        """At which the task may be, of those that a call has named: not where an acknowledged one has moved it away
        from."""
        done = [change for change in self.of.values() if change.is_answered]
        left = [c for c in self.of.values() if not any(c is not other and c.comes_before(other) for other in done)]
        named = {fire_at_ms for change in left for fire_at_ms in change.may_be_at}
        return named if done else {first_ms, *named}
