"""What keeps the tasks of a queue from its target, for people who ask."""

from __future__ import annotations

from typing import NamedTuple

from timerd.core.sinks.breaker import Breaker, TargetState

_FOUND = {
    TargetState.OPEN: "fails",
    TargetState.THROTTLED: "has asked for a pause",
    TargetState.PAUSED: "says that it is gone, so nothing is sent until a restart",
}


class TargetTrouble(NamedTuple):
    """`kind`: what the target is, as stream. `why`: what it has said, or that it is silent. `wait_ms`: after which one
    task is tried; 0: it is tried now, infinite: never."""

    kind: str
    state: TargetState
    why: str
    wait_ms: float

    @property
    def found(self) -> str:
        """What is wrong with it, after its name."""
        why = f": {self.why.rstrip('.')}" if self.why else ""
        return f"{_FOUND[self.state]}{why}."


def trouble_of(kind: str, breaker: Breaker, why: str, now_ms: int) -> TargetTrouble | None:
    """None: there is none."""
    if breaker.state is TargetState.OK:
        return None
    room = breaker.room(now_ms)
    return TargetTrouble(kind, breaker.state, why, 0.0 if room.most else room.next_ms - now_ms)
