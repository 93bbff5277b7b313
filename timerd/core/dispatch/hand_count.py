"""How many deliveries of a queue are in the hands of workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class HandCount:
    """Shared by the batches of a queue. `brought`: those of `open` that workers have from before a restart. `on_less`
    is called once, when there are fewer than there were."""

    open: int = 0
    brought: int = 0
    on_less: Callable[[], None] | None = None

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
