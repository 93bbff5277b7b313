"""Histories of a cluster whose tasks have ordering keys, which hold, halt or pass when one fails, by the seed.

The keys are told by the names of tasks, as in tests/simulator/ordered.py. The checker of clusters judges them, with
four promises more (G21): one of a key is in hand at a time, in the order of due times, fences never go back along the
starts of a key, and what a dead letter halts stands still, whichever instance has ended the task, or is asked to
redrive or to skip it. `python -m tests.simulator.cluster.ordered --seeds 1000`; `--seed 7` shows one as a trace,
`--halting` tells those alone whose keys halt.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import count, islice, pairwise
from math import inf
from typing import ClassVar
from unittest.mock import patch

import timerd.core.ordering.key_gate as key_gate_module
from tests.simulator.asking import new_tasks
from tests.simulator.chances import QUEUES
from tests.simulator.checker import CLEAN_STOP_MS
from tests.simulator.cluster.branches import watched_cluster
from tests.simulator.cluster.checker import ClusterChecker
from tests.simulator.cluster.forms import ClusterForm
from tests.simulator.cluster.instance import Instance
from tests.simulator.cluster.judge import STOP_MS
from tests.simulator.cluster.story import ClusterStory
from tests.simulator.cluster.variants import VARIANTS
from tests.simulator.events import Confirmed, Delivered, Server, Settled, Wanted
from tests.simulator.judge import Verdict, noted, sentences, trace_of
from tests.simulator.known import Known
from tests.simulator.ordered import (
    HABITS_OF_HALTS,
    MOST_KEYS,
    REDRIVES_AFTER_S,
    SKIP_EVERY_S,
    SKIPS_AFTER_S,
    may_be_dead,
    ordering_key_of,
)
from tests.simulator.repeats import Repeats
from tests.simulator.sizes import sizes_of
from tests.simulator.story import told
from tests.simulator.worker import CREDIT, Worker
from timerd.core.ordering.key_gate import LOOK_OF_SHARDS_MS
from timerd.core.partition.holding import HoldingSettings
from timerd.core.taken import QueueKey
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.ordering import OnFailure
from timerd.services.engine.verbs import NewTasks
from timerd.services.node import Node

POLICIES = (OnFailure.HOLD, OnFailure.HOLD, OnFailure.PASS, OnFailure.HOLD, OnFailure.HALT, OnFailure.PASS)


def policy_of(seed: int) -> OnFailure:
    return POLICIES[seed % len(POLICIES)]


def is_once(seed: int) -> bool:
    """Whether nothing is repeated at a distance: in every second history, also of those whose keys halt."""
    return (seed // len(POLICIES) if policy_of(seed) is OnFailure.HALT else seed) % 2 == 0


class HoldingInstance(Instance):
    policy: ClassVar[OnFailure] = OnFailure.HOLD

    def _tune(self, node: Node, settings: HoldingSettings) -> None:
        super()._tune(node, settings)
        node.scheduler.memory.order_keys.goes_by(lambda _: self.policy)


class PassingInstance(HoldingInstance):
    policy = OnFailure.PASS


class HoldingStory(ClusterStory):
    instance_type = HoldingInstance

    def tasks_of(self, request: str, names: tuple[str, ...], wanted: tuple[Wanted, ...]) -> NewTasks:
        tasks = super().tasks_of(request, names, wanted)
        return replace(tasks, rows=new_tasks(request, names, wanted, ordering_key=ordering_key_of).rows)

    async def tell(self) -> None:
        with patch.object(key_gate_module, "LOOK_OF_SHARDS_MS", LOOK_OF_SHARDS_MS):
            await super().tell()

    def _slow_down(self, every_s: int) -> None:
        """What waits for a look at the catalogue is looked at as seldom as that."""
        super()._slow_down(every_s)
        key_gate_module.LOOK_OF_SHARDS_MS = LOOK_OF_SHARDS_MS * every_s


class PassingStory(HoldingStory):
    instance_type = PassingInstance


class HaltingInstance(HoldingInstance):
    policy = OnFailure.HALT


class HaltingStory(HoldingStory):
    """More tasks are rejected. At the end an operator redrives them, and skips what stands still then: each call goes
    to any of the instances."""

    instance_type = HaltingInstance

    def hire(
        self, habits: tuple[str, ...] | None = None, queues: tuple[str, ...] | None = None, credit: int = CREDIT
    ) -> Worker:
        return super().hire(HABITS_OF_HALTS if habits != () else (), queues, credit)

    async def _run_out(self) -> None:
        skipping = self.spawn(self._resumes())
        try:
            await super()._run_out()
        finally:
            skipping.cancel()

    async def _resumes(self) -> None:
        await asyncio.sleep(REDRIVES_AFTER_S)
        rejected = [each.name for each in self.events if isinstance(each, Settled) and each.action == "reject"]
        for number, name in enumerate(dict.fromkeys(rejected)):
            if name in self.ids:
                await self.redrive(f"at last {number}", name)
        await asyncio.sleep(SKIPS_AFTER_S)
        self.log(Server(self.loop.now_ms, "skips"))
        while True:
            await asyncio.sleep(SKIP_EVERY_S)
            for queue in (QueueKey("default", name) for name in QUEUES):
                await self._skip(queue)

    async def _skip(self, queue: QueueKey) -> None:
        """All that stand still, by whatever instance is reached."""
        for instance in self.serving():
            states = instance.node.engine.ordering.states(queue, MOST_KEYS)
            for key in [each.key for each in states if each.halt is not None]:
                if (run := self.reached()) is not None:
                    try:
                        await run.call(_skip_one(run.node, queue, key))
                    except Exception as error:  # noqa: BLE001 - judged with everything else
                        if not isinstance(error, StoreUnavailable | StoreUnknown):
                            self.errors.append(error)


async def _skip_one(node: Node, queue: QueueKey, key: str) -> None:
    if (halt := await node.engine.ordering.halt(queue, key, "")) is not None:
        await node.engine.ordering.skip(halt)


STORIES = {OnFailure.HOLD: HoldingStory, OnFailure.HALT: HaltingStory, OnFailure.PASS: PassingStory}


class OrderedClusterChecker(ClusterChecker):
    """`places`: where each task was stored, as its id says."""

    def __init__(
        self, policy: OnFailure, places: Mapping[str, int], ttl_ms: int, skew_ms: float, way_ms: float, stop_ms: int
    ) -> None:
        super().__init__(ttl_ms, skew_ms, way_ms, stop_ms)
        self._policy = policy
        self._places = places
        self._starts: dict[tuple[str, str], list[tuple[float, tuple[int, ...], str]]] = {}
        # With PASS: which others one came before. Its first attempt may have been lost on its way to a worker.
        self._passed: dict[str, str] = {}
        # When tasks have died for certain, of which nothing else is known since.
        self._dead_ms: dict[str, float] = {}
        self._is_skipping = False
        self.judged_serial = self.judged_order = self.judged_halts = 0

    def _server(self, event: Server) -> None:
        super()._server(event)
        self._is_skipping |= event.what == "skips"

    def _confirmed(self, confirmed: Confirmed) -> None:
        super()._confirmed(confirmed)
        said = self._settled[confirmed.worker, confirmed.sequence]
        if self._tasks[said.name].ended.get(said.delivery_id) == "its reject was confirmed":
            self._dead_ms.setdefault(said.name, confirmed.at_ms)

    def _delivered(self, got: Delivered) -> None:
        task = self._tasks.get(got.name)
        if task is not None and (key := ordering_key_of(got.name)):
            name = task.wanted.queue, key
            others = [each for each in self._tasks.values() if each is not task and _name(each) == name]
            self._starts.setdefault(name, []).append((got.sent_ms, got.fence, got.name))
            if not task.delivered and got.attempt > 1:
                self._passed.pop(task.name, None)
            if not got.fence:
                self._wrong(f"G21: {task.name} came without a fence")
            if not self._is_stale(got):
                self._judge_serial(task, got, others)
                self._judge_order(task, got, others)
                if self._policy is OnFailure.HALT and not self._is_skipping:
                    self._judge_halt(task, got, others)
        super()._delivered(got)

    def _judge_serial(self, task: Known, got: Delivered, others: list[Known]) -> None:
        beside = [each for each in others if self._is_in_hand(each, got)]
        self.judged_serial += any(each.in_hand for each in others) or any(each.acked for each in others)
        if beside and not self._is_shaken:
            self._wrong(f"G21: {task.name} came beside {', '.join(each.name for each in beside)}, of the same key")

    def _is_in_hand(self, task: Known, got: Delivered) -> bool:
        """For certain, when it was sent."""
        held = task.in_hand
        if held is None or task.unconfirmed or held.lapsed or task.acking or task.acked or task.over:
            return False
        may_be_elsewhere = task.moves.is_any or task.redrives.is_any or task.cancels
        sent = replace(got, at_ms=got.sent_ms - self._skew_ms)
        return not may_be_elsewhere and held.keeps_from(sent) and task.came_ms[held.delivery_id] < got.sent_ms

    def _judge_order(self, task: Known, got: Delivered, others: list[Known]) -> None:
        """Also around a fault: what stands before it, and was stored before it was due or called for, has ended."""
        if not _is_plain(task) or task.name not in self._places:
            return
        place_ms = self._places[task.name]
        called_ms = max(place_ms, task.first_ms)
        waiting = [
            each
            for each in others
            if self._waits(each, got) and self._places[each.name] < place_ms and each.stored_ms < called_ms
        ]
        self.judged_order += any(each.acked and self._places.get(each.name, place_ms) < place_ms for each in others)
        if self._policy is OnFailure.PASS:
            self._passed.update({each.name: task.name for each in waiting})
        elif waiting:
            names = ", ".join(each.name for each in waiting)
            self._wrong(f"G21: {task.name} came before {names}, whose turn it was")

    def _judge_halt(self, task: Known, got: Delivered, others: list[Known]) -> None:
        """As in tests/simulator/ordered.py, around whatever fault."""
        dying = [each for each in [task, *others] if may_be_dead(each)]
        halting = [each for each in dying if each is not task and self._dead_ms.get(each.name, inf) < got.sent_ms]
        if len(dying) != 1 or not halting:
            return
        [dead] = halting
        self.judged_halts += 1
        if not (dead.acked or dead.moves.is_any or dead.cancels or dead.over or dead.wanted.expire_at_ms):
            self._wrong(f"G21: {task.name} came after {dead.name}, which halts its key")

    def _waits(self, task: Known, got: Delivered) -> bool:
        """For certain: it was stored before that one was sent, and nobody has said anything of its end."""
        is_stored = task.stored and task.stored_ms <= got.sent_ms and task.name in self._places
        may_have_ended = task.acked or task.rejected or task.given_up or task.over or task.replaced
        may_be_dead = task.delivered > 0 and task.wanted.max_attempts < 20
        may_be_passed = self._policy is OnFailure.PASS and (task.delivered > 0 or task.failed)
        is_plain = _is_plain(task) and not (task.cancels or task.wanted.expire_at_ms)
        return bool(is_stored and is_plain) and not (may_have_ended or may_be_dead or may_be_passed)

    def _close(self) -> None:
        super()._close()
        for passed, task in self._passed.items():
            self._wrong(f"G21: {task} came before {passed}, whose turn it was")
        for name, starts in self._starts.items():
            starts.sort()
            for (_, before, _), (_, fence, task) in pairwise(starts):
                if fence < before:
                    self._wrong(f"G21: the fence of {name} went back with {task}")


def _is_plain(task: Known) -> bool:
    return not (task.moves.is_any or task.redrives.is_any)


def _name(task: Known) -> tuple[str, str]:
    return task.wanted.queue, ordering_key_of(task.name)


def judged_ordered(
    seed: int, variant: str = "correct", *, traced: bool = False, once: bool = False
) -> tuple[Verdict, OrderedClusterChecker]:
    """As judge.judged, of a history with keys."""
    policy = policy_of(seed)
    with VARIANTS[variant](), sizes_of(seed), watched_cluster(), noted() as errors:
        story = told(STORIES[policy](seed, repeats=None if once else Repeats(seed)))
    stop_ms = STOP_MS if story.shape is ClusterForm.OVERRUN else CLEAN_STOP_MS
    places = {name: task.position_ms for name, task in story.ids.items()}
    checker = OrderedClusterChecker(policy, places, story.timing.ttl_ms, story.skew_ms, story.way_ms, stop_ms)
    broken = sorted(checker.judge(story.events) + story.broken)
    trace = tuple(trace_of(story, broken)) if traced else ()
    wrong = tuple(sentences(story, broken, errors))
    return Verdict(seed, variant, wrong, len(story.events), Counter(), trace, ".cluster.ordered", once), checker


def main() -> int:
    """Judges histories, or shows one of them as a trace."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.cluster.ordered", description=__doc__)
    parser.add_argument("--seed", type=int, help="this one, as a trace")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--halting", action="store_true", help="of each six seeds the one whose keys halt")
    given = parser.parse_args()
    if given.seed is not None:
        verdict, _ = judged_ordered(given.seed, traced=True, once=is_once(given.seed))
        print("\n".join([*verdict.trace, *verdict.wrong]))
        return len(verdict.wrong)
    seeds = (seed for seed in count(given.first) if not given.halting or policy_of(seed) is OnFailure.HALT)
    serial = order = halts = wrong = 0
    for seed in islice(seeds, given.seeds):
        verdict, checker = judged_ordered(seed, once=is_once(seed))
        serial, order = serial + checker.judged_serial, order + checker.judged_order
        halts += checker.judged_halts
        wrong += bool(verdict.wrong)
        for sentence in verdict.wrong:
            print(f"{verdict.replay}: {sentence}", flush=True)
    starts = f"{serial} starts after another one, {order} in order, {halts} after one that had halted its key"
    print(f"{given.seeds} histories, {wrong} of them wrong; {starts}")
    return wrong


if __name__ == "__main__":
    sys.exit(main() > 0)
