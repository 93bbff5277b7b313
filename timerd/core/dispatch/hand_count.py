"""How many deliveries of a queue are in the hands of workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class DeliveryWatch(Protocol):
    """Who hears of each delivery of a queue."""

    def begun(self, deliveries: int, sent_ms: int) -> None: ...

    def ended(self, outcome: str, deliveries: int, sent_ms: int, now_ms: int) -> None:
        """So many that were sent then. `outcome`: as the metrics name it; empty: another one has them."""
        ...


@dataclass(slots=True, eq=False)
class HandCount:
    """Shared by the batches of a queue. `brought`: those of `open` that workers have from before a restart. `on_less`
    is called once, when there are fewer than there were; `watches` hear of all that is sent from here."""

    open: int = 0
    brought: int = 0
    on_less: Callable[[], None] | None = None
    watches: tuple[DeliveryWatch, ...] = ()

    def listen(self, watch: DeliveryWatch) -> None:
        """It hears of all that is sent from here."""
        if watch not in self.watches:
            self.watches += (watch,)

    def leave(self, watch: DeliveryWatch) -> None:
        """It hears of nothing any more."""
        self.watches = tuple(each for each in self.watches if each is not watch)

    def is_part_of(self, hand: HandCount) -> bool:
        """Whether what is counted here counts there."""
        return self is hand

    def begin(self, deliveries: int, sent_ms: int) -> None:
        self.open += deliveries
        for watch in self.watches:
            watch.begun(deliveries, sent_ms)

    def end(self, outcome: str, deliveries: int, sent_ms: int, now_ms: int) -> None:
        for watch in self.watches:
            watch.ended(outcome, deliveries, sent_ms, now_ms)
        self.less(deliveries)

    def less(self, deliveries: int) -> None:
        self.open -= deliveries
        if self.on_less is not None:
            on_less, self.on_less = self.on_less, None
            on_less()

    def bring(self) -> None:
        """One more, from before a restart."""
        self.open += 1
        self.brought += 1

    def bring_less(self) -> None:
        """One less of these."""
        self.brought -= 1
        self.less(1)
