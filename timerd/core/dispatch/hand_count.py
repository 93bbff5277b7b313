"""How many deliveries of a queue are in the hands of workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class HandCount:
    """Shared by the batches of a queue. `on_less` is called once, when there are fewer than there were."""

    open: int = 0
    on_less: Callable[[], None] | None = None

    def less(self, deliveries: int) -> None:
        self.open -= deliveries
        if self.on_less is not None:
            on_less, self.on_less = self.on_less, None
            on_less()
