"""What happens to the partitions of one instance, counted for whoever watches: seen from outside of their machines, by
where each stands before and after it has heard something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from timerd.core.effects import ChangeControl
from timerd.core.holding import Phase
from timerd.core.partition_machine import PartitionMachine
from timerd.model.partition import Partition

OVER = {Phase.DONE: "finished", Phase.HANDED_OVER: "handed_over", Phase.LOST: "lost", Phase.REFUSED: "refused"}
EVENTS = ("taken", "taken_over", "loaded", "mark_refused", *OVER.values())


class PartitionEvents:
    """`counts`: by event; `rescued_rows`: what no hint had told of before the sweep found it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(EVENTS, 0))
        self.rescued_rows = 0
        # Of whom a partition is to be taken.
        self._holders: dict[Partition, str] = {}

    def asking(self, machine: PartitionMachine, effect: ChangeControl) -> None:
        if machine.phase is Phase.ACQUIRE and effect.expected is not None:
            self._holders[machine.partition] = effect.expected.holder

    @contextmanager
    def watch(self, machine: PartitionMachine) -> Iterator[None]:
        """While it hears what was asked for. What is read for the first time, or again after it was cut, is no news."""
        was, rows = machine.phase, machine.rows.waiting.rows
        is_sweep = machine.rows.reloading is None and machine.sweep.loaded_ms >= machine.partition.end_ms
        yield
        if was is machine.phase:
            self.rescued_rows += max(0, machine.rows.waiting.rows - rows) if was is Phase.HOT and is_sweep else 0
        else:
            self._moved_on(machine, was)

    def _moved_on(self, machine: PartitionMachine, was: Phase) -> None:
        before = self._holders.pop(machine.partition, "") if was is Phase.ACQUIRE else ""
        if machine.phase is Phase.RECOVER and machine.control is not None:
            self.counts["taken" if before in ("", machine.control.holder) else "taken_over"] += 1
        elif machine.phase is Phase.HOT:
            self.counts["loaded"] += 1
        elif machine.phase is Phase.LOST and was is Phase.ACQUIRE:
            self.counts["refused"] += 1
        elif machine.phase.is_over:
            self.counts[OVER[machine.phase]] += 1
            self.counts["mark_refused"] += machine.phase is Phase.LOST

    def dropped(self, machine: PartitionMachine) -> None:
        """The lease was not sure any more."""
        self._holders.pop(machine.partition, None)
        self.counts["lost"] += machine.control is not None
