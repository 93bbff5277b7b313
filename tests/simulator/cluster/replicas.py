"""Three nodes behind the store, as far as quorums let anybody see them.

What two of three have taken in is there for every later read, so one copy is enough for it. What reached fewer is what
this is about: a write of unknown outcome may be on one node, or on its way. It may come out with any later read (a read
that meets it repairs it, so it stays), or when the node's hints are played, long after newer writes; or never. Each row
has the time stamp of its sender, and nothing that instances write takes back what a newer write said: rows and records
are kept as they were first, marks as well, and a register takes nothing in whose condition is over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

Land = Callable[[], object]
# After its sender was told that the outcome is unknown.
LATE_MS = (100, 3_000, 9_000)
MEETS = 0.3


class Replicas:
    """`late`: how many of the writes of unknown outcome that did not reach a quorum are on a node all the same.
    `slow_ms`: one node answers later than the others; every third request has it for a coordinator."""

    def __init__(self, random: Random, later: Callable[[float, Land], None], hits: Counter[str]) -> None:
        self.late = 0.0
        self.slow_ms = 0.0
        self._random = random
        self._later = later
        self._hits = hits
        self._on_one_node: dict[int, Land] = {}
        self._number = 0

    def clear_up(self) -> None:
        """What is on one node only may still come out."""
        self.late = self.slow_ms = 0.0

    def way_ms(self) -> float:
        """What the coordinator adds."""
        return self.slow_ms if self.slow_ms and self._random.random() < 1 / 3 else 0.0

    def missed(self, works: Sequence[Land], told_ms: float) -> None:
        """The parts of a write that too few nodes have taken in; its sender hears nothing before `told_ms`."""
        for work in works:
            if self._random.random() >= self.late:
                continue
            self._number += 1
            self._on_one_node[self._number] = work
            if self._random.random() < 0.7:
                number, at_ms = self._number, told_ms + self._random.choice(LATE_MS)
                self._later(at_ms, lambda number=number: self._land(number, "a write that lands late"))  # type: ignore[misc]

    def read(self) -> None:
        """Somebody asks a quorum."""
        for number in [n for n in self._on_one_node if self._random.random() < MEETS]:
            self._land(number, "a write that a read brings out")

    def _land(self, number: int, what: str) -> None:
        work = self._on_one_node.pop(number, None)
        if work is not None:
            self._hits[what] += 1
            work()
