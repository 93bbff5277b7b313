"""The breakers of queues that have one by their rules, each in front of all that is sent of its queue.

They count what this instance has sent and hear of its end, and nothing of it is stored: a server that starts anew finds
out anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from timerd.core.dispatch import Allowance, HandCount, Slice
from timerd.core.regulation.breaker import BreakerState, Evidence, QueueBreaker
from timerd.core.regulation.known_rules import KnownRules
from timerd.core.regulation.limits import HeldBack, Why
from timerd.core.taken import QueueKey

_EVIDENCE = {"acked": Evidence.GOOD, "failed": Evidence.BAD, "timed_out": Evidence.BAD}


@dataclass(slots=True, eq=False)
class WatchedQueue:
    """Implements core.dispatch.DeliveryWatch. `is_waiting`: something of it is held back until one has ended."""

    queue: QueueKey
    breaker: QueueBreaker
    opened: Callable[[Collection[QueueKey]], None]
    is_waiting: bool = False

    def begun(self, deliveries: int, sent_ms: int) -> None:
        self.breaker.begun(deliveries, sent_ms)

    def ended(self, outcome: str, deliveries: int, sent_ms: int, now_ms: int) -> None:
        self.breaker.ended(_EVIDENCE.get(outcome, Evidence.NEITHER), deliveries, sent_ms, now_ms)
        if self.is_waiting:
            self.is_waiting = False
            self.opened((self.queue,))


class Breakers:
    """Implements core.dispatch.Limit. `hand`: what workers have of a queue. `opened`: is told of queues that were held
    back, when one of theirs has ended. `seed`: of this instance, so that no two try at the same instant."""

    def __init__(
        self,
        known: KnownRules,
        hand: Callable[[QueueKey], HandCount],
        opened: Callable[[Collection[QueueKey]], None],
        seed: str,
    ) -> None:
        self._known = known
        self._hand = hand
        self._opened = opened
        self._seed = seed
        self._watched: dict[QueueKey, WatchedQueue] = {}

    def allow(self, queue: QueueKey, tasks: int, now_ms: int) -> Allowance:
        if not self._known.of(queue).breaker:
            self._leave(queue)
            return Allowance(tasks, now_ms)
        watched = self._watch(queue, now_ms)
        room = watched.breaker.room(now_ms)
        watched.is_waiting = not room.tasks
        return Allowance(int(min(tasks, room.tasks)), room.next_ms)

    def sent(self, sent: Slice) -> float:
        """Who was sent what, the count of what is in hand has told."""
        return sent.now_ms

    def forget(self, queue: QueueKey) -> None:
        """It goes on to count, whether there are workers or not."""

    def held_back(self, queue: QueueKey, now_ms: int) -> HeldBack | None:
        """None: it lets one more go."""
        watched = self._watched.get(queue)
        if watched is None or not self._known.of(queue).breaker:
            return None
        room = watched.breaker.room(now_ms)
        return None if room.tasks else HeldBack(room.next_ms, "", Why.BREAKER)

    def state(self, queue: QueueKey, now_ms: int) -> tuple[BreakerState, int | None]:
        """And until when it is OPEN."""
        watched = self._watched.get(queue)
        if watched is None:
            return BreakerState.CLOSED, None
        until_ms = watched.breaker.until_ms(now_ms)
        return watched.breaker.state, until_ms

    def used(self) -> dict[QueueKey, QueueBreaker]:
        """Those through which something has gone."""
        return {queue: watched.breaker for queue, watched in self._watched.items()}

    def _watch(self, queue: QueueKey, now_ms: int) -> WatchedQueue:
        """The count of a queue of which nothing was in hand may be another one by now."""
        watched = self._watched.get(queue)
        if watched is None:
            # What is sent now counts already.
            breaker = QueueBreaker(f"{self._seed}\0{queue.namespace}\0{queue.queue}", now_ms - 1)
            watched = self._watched[queue] = WatchedQueue(queue, breaker, self._opened)
        self._hand(queue).listen(watched)
        return watched

    def _leave(self, queue: QueueKey) -> None:
        """It has no breaker any more."""
        if self._watched and (watched := self._watched.pop(queue, None)) is not None:
            self._hand(queue).leave(watched)
