"""Ends of occurrences that something waits for: who has delivered one tells its schedule, which looks at once instead
of with its next tick (core/schedules/hinted.py). A hint may be lost: the tick comes within ten seconds."""

from __future__ import annotations

from contextlib import suppress

from timerd.core.dispatch import Settlement
from timerd.core.protocol import NotTakenIn, Undecided
from timerd.core.schedules.hinted import hinted
from timerd.core.schedules.world import World
from timerd.model.errors import Aborted, NotFound, StoreUnknown, Unavailable
from timerd.services.background import begin
from timerd.services.holding.driving import Performs, drive

# Beyond it the oldest is forgotten.
MOST_WATCHED = 10_000
# The tick tries again.
FORESEEN = (Unavailable, StoreUnknown, Aborted, NotFound, NotTakenIn, Undecided)


class EndHints:
    """Of one instance. `watched`: by the digest of an open occurrence, the schedule that waits for its end."""

    def __init__(self, runner: Performs) -> None:
        self._runner = runner
        self._watched: dict[bytes, tuple[str, str]] = {}

    def watch(self, namespace: str, schedule_id: str, digest: bytes) -> None:
        self._watched.pop(digest, None)
        self._watched[digest] = (namespace, schedule_id)
        if len(self._watched) > MOST_WATCHED:
            del self._watched[next(iter(self._watched))]

    def settled(self, settlement: Settlement, world: World) -> None:
        """It is durable."""
        if not self._watched:
            return
        for digest in settlement.ended_digests():
            if (schedule := self._watched.pop(digest, None)) is not None:
                begin(self._hint(*schedule, world), "schedules")

    async def _hint(self, namespace: str, schedule_id: str, world: World) -> None:
        with suppress(*FORESEEN):
            await drive(hinted(namespace, schedule_id, world), self._runner)
