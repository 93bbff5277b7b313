"""What the server takes nothing of for now: a namespace in which the relay has no role or that is over its quota, and a
queue that is shut. It holds up no other.

A batch of it stays sealed, and is sent again now and then: the same bytes. Nothing more is sealed of it until none of
its batches waits.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

from timerd.outbox.outcomes import SendOutcome
from timerd.outbox.rows import SealedBatch
from timerd.outbox.sealing import LeftOut, QualifiedName
from timerd.sdk.values import TimerdError

# What a caller is refused in one namespace, and may be allowed in another.
_OF_NAMESPACE = frozenset({"PERMISSION_DENIED"})
# Each batch is told when there is room for it.
QUOTA = "QUOTA"


class HeldBatch(NamedTuple):
    """A batch that waits. `names`: namespaces, each with a queue, or "" for all of it."""

    names: frozenset[QualifiedName]
    why: TimerdError
    tasks: int

    @property
    def reason(self) -> str:
        return self.why.reason or self.why.code


class HeldUp:
    """By the numbers of batches that a relay has in hand."""

    def __init__(self) -> None:
        self._held: dict[int, HeldBatch] = {}
        self._over: dict[int, asyncio.Event] = {}

    def numbers(self) -> frozenset[int]:
        return frozenset(self._held)

    def batches(self) -> list[HeldBatch]:
        return [*self._held.values()]

    def names(self) -> frozenset[QualifiedName]:
        return frozenset().union(*(each.names for each in self._held.values()))

    def left_out(self) -> LeftOut:
        names = self.names()
        return LeftOut(frozenset(ns for ns, queue in names if not queue), frozenset(each for each in names if each[1]))

    def why(self, no: int) -> TimerdError | None:
        held = self._held.get(no)
        return held.why if held is not None else None

    def heard(self, batch: SealedBatch, outcome: SendOutcome) -> frozenset[QualifiedName]:
        """What the server said to a batch. Returns the names of which that changes whether they are held up."""
        before, was = self.names(), self._held.get(batch.no)
        names = _names(batch, outcome)
        if names and outcome.why is not None:
            self._held[batch.no] = HeldBatch(names, outcome.why, batch.tasks)
        elif outcome.why is None or outcome.why.code != "UNAVAILABLE":
            self.forget(batch.no)
            self._wake((was.names if was is not None else frozenset()) | {(batch.namespace, "")})
        return before ^ self.names()

    def forget(self, no: int) -> None:
        self._held.pop(no, None)
        self._over.pop(no, None)

    def _wake(self, names: frozenset[QualifiedName]) -> None:
        """What waited for the same, but for a quota."""
        for no, held in self._held.items():
            if held.reason != QUOTA and not names.isdisjoint(held.names) and no in self._over:
                self._over[no].set()

    async def rest(self, no: int, pause_s: float) -> None:
        """Until the pause is over, or one that waited for the same was taken."""
        over = self._over[no] = asyncio.Event()
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), pause_s)
        self._over.pop(no, None)


def _names(batch: SealedBatch, outcome: SendOutcome) -> frozenset[QualifiedName]:
    """What a batch waits for that is sent again."""
    if outcome.why is not None and (outcome.why.code in _OF_NAMESPACE or outcome.why.reason == QUOTA):
        return frozenset({(batch.namespace, "")})
    return frozenset((batch.namespace, queue) for queue in outcome.shut) if not outcome.left else frozenset()
