"""Histories written by hand, for the tests of the checker: who called, what was answered, what came to whom."""

from __future__ import annotations

from typing import Any

from tests.simulator.checker import Checker
from tests.simulator.events import (
    Broke,
    Called,
    Confirmed,
    Delivered,
    Event,
    Held,
    Replied,
    Said,
    Server,
    Settled,
    Verb,
    Wanted,
)

LEASE_MS = 3_000


class Tale:
    """Begins with a server that has just started. Times are in ms, and each method's first argument."""

    def __init__(self, *, ordered: bool = False) -> None:
        self.events: list[Event] = [Server(1, "started")]
        self._ordered = ordered
        self._calls = self._sequence = 0

    @property
    def wrong(self) -> list[str]:
        return [sentence for _, sentence in Checker(ordered=self._ordered).judge(self.events)]

    def server(self, at_ms: float, what: str) -> None:
        self.events.append(Server(at_ms, what))

    # -- callers --------------------------------------------------------------------------------------------------

    def call(self, at_ms: float, verb: Verb, request: str, name: str, **more: Any) -> int:  # noqa: ANN401
        self._calls += 1
        self.events.append(Called(at_ms, self._calls, verb, request, (name,), **more))
        return self._calls

    def reply(self, at_ms: float, call: int, answer: str, said: Said = Said.OK) -> None:
        self.events.append(Replied(at_ms, call, said, (answer,)))

    def schedule(self, at_ms: float, name: str, wanted: Wanted) -> int:
        return self.call(at_ms, Verb.SCHEDULE, f"schedule {name}", name, wanted=(wanted,))

    def stored(self, at_ms: float, name: str, fire_at_ms: int, **more: Any) -> None:  # noqa: ANN401
        """Called and answered a millisecond later."""
        wanted = Wanted(fire_at_ms, more.pop("queue", "a"), **more)
        self.reply(at_ms + 1, self.schedule(at_ms, name, wanted), "stored")

    def cancelled(self, at_ms: float, name: str, answer: str, request: str = "cancel") -> None:
        self.reply(at_ms + 1, self.call(at_ms, Verb.CANCEL, request, name), answer)

    def moved(self, at_ms: float, name: str, fire_at_ms: int, request: str = "move", takes_ms: float = 1) -> None:
        call = self.call(at_ms, Verb.MOVE, request, name, fire_at_ms=fire_at_ms)
        self.reply(at_ms + takes_ms, call, str(fire_at_ms))

    def over(self, at_ms: float, **states: str) -> None:
        """All has run out: how each task stands."""
        self.server(at_ms, "all over")
        for name, state in states.items():
            self.reply(at_ms, self.call(at_ms, Verb.GET, "", name), state)

    # -- workers --------------------------------------------------------------------------------------------------

    def came(
        self, at_ms: float, name: str, fire_at_ms: int, *, worker: str = "w1", delivery: bytes = b"", attempt: int = 1
    ) -> None:
        """`delivery`: its id, where the task has more than one."""
        delivery_id = delivery or name.encode()
        self.events.append(
            Delivered(at_ms, worker, name, delivery_id, attempt, fire_at_ms, f"bucket of {fire_at_ms}", 1, LEASE_MS)
        )

    def said(self, at_ms: float, name: str, action: str, *, worker: str = "w1") -> None:
        """Of its first delivery; nothing is confirmed."""
        self._sequence += 1
        self.events.append(Settled(at_ms, worker, self._sequence, action, name, name.encode(), 1))

    def confirmed(self, at_ms: float, *, worker: str = "w1") -> None:
        """What it said last."""
        self.events.append(Confirmed(at_ms, worker, self._sequence, refused=True))

    def put_off(self, at_ms: float, *, worker: str = "w1") -> None:
        """What it said last is to be said again."""
        self.events.append(Confirmed(at_ms, worker, self._sequence, refused=False, again=True))

    def acked(self, at_ms: float, name: str, *, worker: str = "w1", delivery: bytes = b"") -> None:
        """And confirmed a millisecond later."""
        self._sequence += 1
        delivery_id = delivery or name.encode()
        self.events.append(Settled(at_ms, worker, self._sequence, "ack", name, delivery_id, 1))
        self.events.append(Confirmed(at_ms + 1, worker, self._sequence, refused=False))

    def came_back(self, at_ms: float, *deliveries: bytes, worker: str = "w1") -> None:
        self.events.append(Held(at_ms, worker, deliveries, LEASE_MS, resumed=True))

    def extended(self, at_ms: float, delivery: bytes, *, worker: str = "w1") -> None:
        self.events.append(Held(at_ms, worker, (delivery,), LEASE_MS))

    def broke(self, at_ms: float, *, worker: str = "w1", going_away: bool = False, hung_up: bool = False) -> None:
        self.events.append(Broke(at_ms, worker, going_away, ("a",), LEASE_MS, hung_up))
