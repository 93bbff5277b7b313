"""Histories whose tasks have ordering keys, which hold, halt or pass when one fails, by the seed.

The keys are told by the names of tasks, so a history is the same call by call as the one of its seed without keys. The
same checker judges it, and three promises besides (G21): one of a key is in hand at a time, fences never go back, and
where a dead letter halts its key nothing else of it starts before that task has ended, or somebody has skipped it.
"""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import asyncio
import gc
from collections import Counter
from typing import Any
from zlib import crc32

from tests.simulator.asking import new_tasks
from tests.simulator.chances import QUEUES
from tests.simulator.checker import Checker
from tests.simulator.events import Confirmed, Delivered, Server, Settled, Wanted
from tests.simulator.faults import FaultyStore
from tests.simulator.judge import Verdict, noted, sentences
from tests.simulator.keyed import KeyedRun
from tests.simulator.known import Known
from tests.simulator.repeats import Repeats
from tests.simulator.server import Run
from tests.simulator.sizes import sizes_of
from tests.simulator.story import Story, told
from tests.simulator.variants import VARIANTS
from tests.simulator.virtual_loop import Owner
from tests.simulator.worker import CREDIT, Worker
from timerd.core.taken import QueueKey
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.ordering import OnFailure
from timerd.services.engine.verbs import NewTasks
from timerd.services.node import Node

# One task in five has none.
KEYS = ("", "x", "x", "x", "y")
POLICIES = (OnFailure.HOLD, OnFailure.HALT, OnFailure.PASS)
HABITS_OF_HALTS = ("reject", "reject", "reject", "ack")
REDRIVES_AFTER_S, SKIPS_AFTER_S, SKIP_EVERY_S = 5.0, 30.0, 5.0
MOST_KEYS = 1_000


def ordering_key_of(name: str) -> str:
    return KEYS[crc32(name.encode()) % len(KEYS)]


def policy_of(seed: int) -> OnFailure:
    return POLICIES[seed % 3]


class HoldingRun(KeyedRun):
    policy = OnFailure.HOLD

    def _assemble(self, *parts: Any) -> Node:
        node = super()._assemble(*parts)
        node.scheduler.memory.order_keys.goes_by(lambda _: self.policy)
        return node


class HaltingRun(HoldingRun):
    policy = OnFailure.HALT


class PassingRun(HoldingRun):
    policy = OnFailure.PASS


RUNS = {OnFailure.HOLD: HoldingRun, OnFailure.HALT: HaltingRun, OnFailure.PASS: PassingRun}


class OrderedStory(Story):
    def __post_init__(self) -> None:
        super().__post_init__()
        # What is due first may wait for its key.
        self.is_ordered = False

    def hire(
        self, habits: tuple[str, ...] | None = None, queues: tuple[str, ...] | None = None, credit: int = CREDIT
    ) -> Worker:
        """Where a dead letter halts its key, more of them come about."""
        if habits is None and policy_of(self.seed) is OnFailure.HALT:
            habits = HABITS_OF_HALTS
        return super().hire(habits, queues, credit)

    def run_on(self, owner: Owner, store: FaultyStore) -> Run:
        return RUNS[policy_of(self.seed)](self.loop, owner, store, self.config, self.settings)

    def tasks_of(self, request: str, names: tuple[str, ...], wanted: tuple[Wanted, ...]) -> NewTasks:
        return new_tasks(request, names, wanted, ordering_key=ordering_key_of)

    async def _run_out(self) -> None:
        """Nothing that stands still is left: an operator redrives what was rejected, and skips the rest."""
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
            if (run := self.reached()) is not None:
                try:
                    await run.call(_skip_all(run.node))
                except Exception as error:  # noqa: BLE001 - judged with everything else
                    if not isinstance(error, StoreUnavailable | StoreUnknown):
                        self.errors.append(error)


async def _skip_all(node: Node) -> None:
    for name in QUEUES:
        queue, ordering = QueueKey("default", name), node.engine.ordering
        for state in ordering.states(queue, MOST_KEYS):
            if state.halt is not None and (halt := await ordering.halt(queue, state.key, "")) is not None:
                await ordering.skip(halt)


class OrderedChecker(Checker):
    def __init__(self, policy: OnFailure) -> None:
        super().__init__(ordered=False)
        self._policy = policy
        self._started_ms = 0.0
        self._fences: dict[tuple[str, str], tuple[int, ...]] = {}
        # Tasks that have died for certain, of which nothing else is known since.
        self._dead: dict[str, bytes] = {}
        self._is_skipping = False
        self.judged_serial = self.judged_halts = 0

    def _server(self, event: Server) -> None:
        super()._server(event)
        self._is_skipping |= event.what == "skips"
        if event.what == "started":
            self._started_ms = event.at_ms

    def _delivered(self, got: Delivered) -> None:
        task = self._tasks.get(got.name)
        if task is not None and (key := ordering_key_of(got.name)):
            name = task.wanted.queue, key
            others = [each for each in self._tasks.values() if each is not task and _name(each) == name]
            self._judge_fence(task, got, name)
            self._judge_serial(task, got, others)
            if self._policy is OnFailure.HALT and not self._is_skipping:
                self._judge_halt(task, others)
        super()._delivered(got)

    def _judge_fence(self, task: Known, got: Delivered, name: tuple[str, str]) -> None:
        if not got.fence:
            self._wrong(f"G21: {task.name} came without a fence")
        elif got.fence < self._fences.get(name, ()):
            self._wrong(f"G21: the fence of {name} went back with {task.name}")
        self._fences[name] = max(got.fence, self._fences.get(name, ()))

    def _judge_serial(self, task: Known, got: Delivered, others: list[Known]) -> None:
        beside = [each for each in others if self._is_in_hand(each, got)]
        self.judged_serial += any(each.delivered for each in others)
        if beside:
            self._wrong(f"G21: {task.name} came beside {', '.join(each.name for each in beside)}, of the same key")

    def _is_in_hand(self, task: Known, got: Delivered) -> bool:
        """For certain, and sent by this run of the server. What was said of it may be durable before its worker hears
        that, and what has expired, was cancelled or moved may be over for the server."""
        held = task.in_hand
        if held is None or task.unconfirmed or held.lapsed or task.acking or task.acked or task.over:
            return False
        may_be_elsewhere = task.moves.is_any or task.redrives.is_any or task.cancels
        return not may_be_elsewhere and held.keeps_from(got) and task.came_ms[held.delivery_id] > self._started_ms

    def _judge_halt(self, task: Known, others: list[Known]) -> None:
        """Of a key of which one task alone may be dead. A redrive that has given it life has it go first."""
        dying = [each for each in [task, *others] if may_be_dead(each)]
        halting = [each for each in dying if each is not task and each.name in self._dead]
        if len(dying) != 1 or not halting:
            return
        [dead] = halting
        self.judged_halts += 1
        if not (dead.acked or dead.moves.is_any or dead.cancels or dead.over or dead.wanted.expire_at_ms):
            self._wrong(f"G21: {task.name} came after {dead.name}, which halts its key")

    def _confirmed(self, confirmed: Confirmed) -> None:
        super()._confirmed(confirmed)
        said = self._settled[confirmed.worker, confirmed.sequence]
        task = self._tasks[said.name]
        if task.ended.get(said.delivery_id) == "its reject was confirmed":
            self._dead.setdefault(said.name, said.delivery_id)


def may_be_dead(task: Known) -> bool:
    return bool(task.given_up) or (task.delivered > 0 and task.wanted.max_attempts < 20)


def _name(task: Known) -> tuple[str, str]:
    return task.wanted.queue, ordering_key_of(task.name)


def judged_ordered(seed: int, variant: str = "correct", *, once: bool = False) -> tuple[Verdict, OrderedChecker]:
    """As judge.judged, of a history with keys."""
    with VARIANTS[variant](), sizes_of(seed), noted() as errors:
        story = told(OrderedStory(seed, repeats=None if once else Repeats(seed)))
        gc.collect()
    checker = OrderedChecker(policy_of(seed))
    broken = checker.judge(story.events)
    wrong = sentences(story, broken, errors)
    return Verdict(seed, variant, tuple(wrong), len(story.events), Counter(), once=once), checker
