"""What happens to the partitions of one instance, counted for the metrics: seen from outside of their machines, by
where each stands before and after it has heard something. How long each step of a change of hands takes is in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from timerd.core.partition import ChangeControl, PartitionMachine, Phase
from timerd.model.partition import Partition

log = logging.getLogger(__name__)
# A partition that is with nobody for longer makes its tasks late.
SLOW_MS = 1_000
OVER = {Phase.DONE: "finished", Phase.HANDED_OVER: "handed_over", Phase.LOST: "lost", Phase.REFUSED: "refused"}
EVENTS = ("taken", "taken_over", "loaded", "mark_refused", "given_up", *OVER.values())


class PartitionEvents:
    """`counts`: by event; `rescued_rows`: what no hint had told of before the sweep found it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(EVENTS, 0))
        self.rescued_rows = 0
        # Of whom a partition is to be taken.
        self._holders: dict[Partition, str] = {}
        # When each began to change hands, and when its steps were over.
        self._steps_s: dict[Partition, list[float]] = {}

    def begins(self, machine: PartitionMachine) -> None:
        """To become this instance's, or another one's."""
        self._steps_s[machine.partition] = [_now_s()]

    def asking(self, machine: PartitionMachine, effect: ChangeControl) -> None:
        if machine.phase is Phase.RELEASE:
            self._step(machine)
        if machine.phase is Phase.ACQUIRE and effect.expected is not None:
            self._holders[machine.partition] = effect.expected.holder

    @contextmanager
    def watch(self, machine: PartitionMachine) -> Iterator[None]:
        """While it hears what was asked for. What is read for the first time, or again after it was cut, is no news."""
        was, rows = machine.phase, machine.waiting_rows
        is_sweep = machine.reload is None and machine.loaded_ms >= machine.partition.end_ms
        yield
        if was is machine.phase:
            self.rescued_rows += max(0, machine.waiting_rows - rows) if was is Phase.HOT and is_sweep else 0
        else:
            self._moved_on(machine, was)

    def _moved_on(self, machine: PartitionMachine, was: Phase) -> None:
        before = self._holders.pop(machine.partition, "") if was is Phase.ACQUIRE else ""
        if machine.phase is Phase.RECOVER and machine.control is not None:
            self.counts["taken" if before in ("", machine.control.holder) else "taken_over"] += 1
            self._step(machine)
        elif machine.phase is Phase.HOT:
            self.counts["loaded"] += 1
            self._fires(machine)
        elif machine.phase is Phase.LOST and was is Phase.ACQUIRE:
            self.counts["refused"] += 1
            self._steps_s.pop(machine.partition, None)
        elif machine.phase.is_over:
            self.counts[OVER[machine.phase]] += 1
            self.counts["mark_refused"] += machine.phase is Phase.LOST
            if machine.phase is not Phase.HANDED_OVER:
                self._steps_s.pop(machine.partition, None)

    def _step(self, machine: PartitionMachine) -> None:
        if machine.partition in self._steps_s:
            self._steps_s[machine.partition].append(_now_s())

    def _fires(self, machine: PartitionMachine) -> None:
        steps_s = self._steps_s.pop(machine.partition, [])
        if len(steps_s) < 2:
            return
        took_ms, holder_ms = 1e3 * (_now_s() - steps_s[0]), 1e3 * (steps_s[1] - steps_s[0])
        level = logging.INFO if took_ms > SLOW_MS else logging.DEBUG
        words = "%s fires here after %.0f ms: %.0f until it was held, %.0f to read what is due"
        log.log(level, words, machine.partition, took_ms, holder_ms, took_ms - holder_ms)

    def given(self, machine: PartitionMachine) -> float:
        """Milliseconds in which nobody has sent anything of it."""
        steps_s = self._steps_s.pop(machine.partition, [_now_s()])
        took_ms, settled_ms = 1e3 * (_now_s() - steps_s[0]), 1e3 * (steps_s[-1] - steps_s[0])
        words = "%s is handed over to %s after %.0f ms: %.0f until all was carried and settled, %.0f for the last mark"
        successor = machine.successor or "the next that needs it"
        log.info(words, machine.partition, successor, took_ms, settled_ms, took_ms - settled_ms)
        return took_ms

    def dropped(self, machine: PartitionMachine) -> None:
        """The lease was not sure any more."""
        self._holders.pop(machine.partition, None)
        self._steps_s.pop(machine.partition, None)
        self.counts["lost"] += machine.control is not None


def _now_s() -> float:
    return asyncio.get_running_loop().time()
