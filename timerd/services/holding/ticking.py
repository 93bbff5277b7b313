"""Which of the held partitions are ticked: all, but of many backlogs that rest only some at a time, in turn.

After an outage each of thousands of queues may have one. When it is sent it stays until its home in time is over, up to
some minutes, in which nothing is left to be done but to move its marks.
"""

from __future__ import annotations

from collections.abc import Collection

from timerd.core.partition import PartitionMachine
from timerd.model.partition import TIME_SCOPE

# So many that rest are ticked at a time, or more, so that each has its turn in so many ticks.
RESTING_AT_ONCE = 64
MOST_TICKS = 50


class Ticking:
    def __init__(self) -> None:
        self._ticks = 0

    def chosen(self, machines: Collection[PartitionMachine]) -> list[PartitionMachine]:
        if len(machines) <= RESTING_AT_ONCE:
            return list(machines)
        resting = [machine for machine in machines if rests(machine)]
        turns = min(MOST_TICKS, -(-len(resting) // RESTING_AT_ONCE))
        if turns <= 1:
            return list(machines)
        self._ticks += 1
        left = {id(machine) for at, machine in enumerate(resting) if (at + self._ticks) % turns}
        return [machine for machine in machines if id(machine) not in left]


def rests(machine: PartitionMachine) -> bool:
    """A backlog of which nothing waits, is open or is being written."""
    return machine.partition.scope != TIME_SCOPE and machine.rests
