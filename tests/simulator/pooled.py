"""Histories whose workers have pools: their queues share a few slots, on one instance or on several.

A history is that of its seed but for the credit of its workers. The same checkers judge it, and beside them each worker
that it never has more of its queues together than it has slots (G23).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from tests.simulator.checker import CLEAN_STOP_MS, Checker
from tests.simulator.cluster.branches import watched_cluster
from tests.simulator.cluster.checker import ClusterChecker
from tests.simulator.cluster.forms import ClusterForm
from tests.simulator.cluster.judge import STOP_MS
from tests.simulator.cluster.story import ClusterStory
from tests.simulator.events import Delivered
from tests.simulator.judge import Verdict, noted, sentences
from tests.simulator.repeats import Repeats
from tests.simulator.sizes import sizes_of
from tests.simulator.story import Story, told
from tests.simulator.worker import Pipe, Worker
from timerd.v1 import work_service_pb2 as pb

POOL = "slots"


@dataclass
class PooledWorker(Worker):
    """`credit` is how many slots it has."""

    _slots: int = 0
    _free: int = 0
    _is_open: bool = False

    def _ask(self, opening: pb.Open) -> None:
        self._slots, self._free, self._is_open = self.credit, 0, False
        opening.pools.add(name=POOL, queues=self.queues, slots=self.credit)

    def _heard(self, pipe: Pipe, response: pb.WorkResponse) -> None:
        super()._heard(pipe, response)
        if self.pipe is pipe and response.WhichOneof("response") == "opened":
            self._is_open = True
            for credit in self._give(self._slots):
                pipe.send(pb.WorkRequest(credit=credit))

    def _give(self, tasks: int) -> list[pb.Credit]:
        """A pool has no more free slots than it has slots, whatever its worker says. Before the server has answered
        nothing is said of them."""
        if not self._is_open:
            return []
        self._free = min(self._slots, self._free + tasks)
        return [pb.Credit(pool=POOL, tasks=tasks)]

    def _spend(self, queue: str) -> bool:
        self._free -= 1
        return self._free >= 0


class PooledStory(Story):
    worker_type: ClassVar[type[Worker]] = PooledWorker


class PooledClusterStory(ClusterStory):
    worker_type: ClassVar[type[Worker]] = PooledWorker


def delivered(story: Story) -> Counter[str]:
    return Counter("delivered" for event in story.events if isinstance(event, Delivered))


def judged_pooled(seed: int) -> Verdict:
    """As judge.judged."""
    with sizes_of(seed), noted() as errors:
        story = told(PooledStory(seed, repeats=Repeats(seed)))
    broken = Checker(ordered=story.is_ordered).judge(story.events)
    return Verdict(seed, "correct", tuple(sentences(story, broken, errors)), len(story.events), delivered(story))


def judged_pooled_cluster(seed: int) -> Verdict:
    """As cluster.judge.judged."""
    with sizes_of(seed), watched_cluster(), noted() as errors:
        story = told(PooledClusterStory(seed, repeats=Repeats(seed)))
    stop_ms = STOP_MS if story.shape is ClusterForm.OVERRUN else CLEAN_STOP_MS
    checker = ClusterChecker(story.timing.ttl_ms, story.skew_ms, story.way_ms, stop_ms)
    broken = sorted(checker.judge(story.events) + story.broken)
    return Verdict(seed, "correct", tuple(sentences(story, broken, errors)), len(story.events), delivered(story))
