"""Histories whose tasks have limit keys: they take turns, and in every second one a key has one or two in hand at most.

The keys are told by the names of tasks, so a history is the same call by call as the one of its seed without keys. The
same checker judges it, and two promises besides (G22): nothing starts above the limit of a key, and a key that has
something due is passed by another one no more often than their turns say.
"""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import asyncio
import gc
from collections import Counter
from itertools import count
from typing import Any
from zlib import crc32

from tests.simulator.asking import new_tasks
from tests.simulator.chances import QUEUES
from tests.simulator.checker import Checker
from tests.simulator.events import Delivered, Server, Wanted
from tests.simulator.faults import FaultyStore
from tests.simulator.judge import Verdict, noted, sentences
from tests.simulator.known import Known
from tests.simulator.order import SETTLED_MS
from tests.simulator.repeats import Repeats
from tests.simulator.server import Run
from tests.simulator.sizes import sizes_of
from tests.simulator.story import Story, told
from tests.simulator.variants import VARIANTS
from tests.simulator.virtual_loop import Owner
from timerd.core.regulation import AllRules, KeyRates, KnownRules, RuleKeyLimits, SharedKeyLimits
from timerd.core.taken import QueueKey
from timerd.model.partition import bucket_of
from timerd.model.regulations import KeyRules, QueueLimit, Regulation
from timerd.services.engine.verbs import NewTasks
from timerd.services.holding.tries import surely
from timerd.services.node import Node
from timerd.services.regulation.placing import Placing

KEYS = ("", "ann", "bob", "cat")
# A key is passed once in each turn, and once more where both came at a tie or one came back unsent.
MOST_PASSED = 2
# Most tasks are one customer's.
OWNERS = (*KEYS, *["ann"] * 4)
LOOK_S, OFTEN, SELDOM_S = 0.25, 40, 5.0


def limit_key_of(name: str) -> str:
    return OWNERS[crc32(name.encode()) % len(OWNERS)]


def limit_of(seed: int) -> int:
    """How many of a key may be in hand; 0: any number."""
    return (0, 1, 0, 2)[seed % 4]


class KeyedRun(Run):
    """`most`: of a key in hand."""

    most = 0

    def _assemble(self, *parts: Any) -> Node:
        node = super()._assemble(*parts)
        machine, known = node.delivery.machine, KnownRules()
        rules = Regulation(1, keys=KeyRules(QueueLimit(self.most) if self.most else None, share=1))
        known.read(AllRules({QueueKey("default", queue): rules for queue in QUEUES}), known.life)
        keys, rates = node.scheduler.memory.limit_keys, KeyRates()
        SharedKeyLimits(known, machine, keys, RuleKeyLimits(known, machine, keys, rates), rates)
        owner_of, now_ms = node.scheduler.finder.owner_of, node.delivery.clock_ms
        self.owner.spawn(self._place(Placing(machine.before.brought, owner_of, now_ms)))
        return node

    async def _place(self, placing: Placing) -> None:
        """As services/regulation/regulating.py."""
        placing.begin()
        for n in count():
            if not placing.is_done():
                await surely(placing.step())
            # Who comes much later is looked up later, for the sake of long histories.
            await asyncio.sleep(LOOK_S if n < OFTEN else SELDOM_S)


class KeyedRunOfOne(KeyedRun):
    most = 1


class KeyedRunOfTwo(KeyedRun):
    most = 2


RUNS = {0: KeyedRun, 1: KeyedRunOfOne, 2: KeyedRunOfTwo}


class KeyedStory(Story):
    def __post_init__(self) -> None:
        super().__post_init__()
        # Keys take turns whatever is due first.
        self.is_fair, self.is_ordered = self.is_ordered and not limit_of(self.seed), False

    def run_on(self, owner: Owner, store: FaultyStore) -> Run:
        return RUNS[limit_of(self.seed)](self.loop, owner, store, self.config, self.settings)

    def tasks_of(self, request: str, names: tuple[str, ...], wanted: tuple[Wanted, ...]) -> NewTasks:
        return new_tasks(request, names, wanted, limit_key_of)


class KeyedChecker(Checker):
    """`most`: of a key in hand, 0 for any number. `fair`: whether turns are judged."""

    def __init__(self, *, most: int, fair: bool) -> None:
        super().__init__(ordered=False)
        self._most, self._fair = most, fair
        self._started_ms = 0.0
        self._passed: dict[tuple[str, str], tuple[int, float]] = {}
        # Buckets of which something has come since then: the others may not be loaded yet.
        self._loaded: set[int] = set()
        self.judged_limits = self.judged_turns = 0

    def _server(self, event: Server) -> None:
        super()._server(event)
        if event.what == "started":
            self._started_ms = event.at_ms
            self._passed.clear()
            self._loaded.clear()

    def _delivered(self, got: Delivered) -> None:
        if (task := self._tasks.get(got.name)) is not None:
            if self._most:
                self._judge_limit(task, got)
            if self._fair:
                self._judge_turn(task, got)
        super()._delivered(got)

    def _judge_limit(self, task: Known, got: Delivered) -> None:
        own = [other for other in self._of_key(task) if other is not task and self._is_in_hand(other, got)]
        self.judged_limits += any(self._waits(each, got) for each in self._of_key(task) if each is not task)
        if len(own) >= self._most:
            self._wrong(f"G22: {task.name} came beside {', '.join(each.name for each in own)}, of the same key")

    def _of_key(self, task: Known) -> list[Known]:
        owner = task.wanted.queue, limit_key_of(task.name)
        return [each for each in self._tasks.values() if (each.wanted.queue, limit_key_of(each.name)) == owner]

    def _is_in_hand(self, task: Known, got: Delivered) -> bool:
        """For certain, and sent by this run of the server: of what workers bring back some come too late to count."""
        held = task.in_hand
        if held is None or task.unconfirmed or held.lapsed:
            return False
        return held.until_ms > got.at_ms and task.came_ms[held.delivery_id] > self._started_ms

    def _judge_turn(self, task: Known, got: Delivered) -> None:
        queue, key = task.wanted.queue, limit_key_of(task.name)
        self._loaded.add(bucket_of(task.wanted.fire_at_ms))
        for name in KEYS:
            self._passed.pop((f"{queue} {name}", key), None)
            waits = name != key and any(self._waits(each, got) for each in self._of_queue(queue, name))
            passed = self._passed_once_more((f"{queue} {key}", name), got.at_ms) if waits else 0
            self.judged_turns += waits
            if not waits:
                self._passed.pop((f"{queue} {key}", name), None)
            if passed > MOST_PASSED:
                self._wrong(f"G22: {task.name} is the {passed}th of its key to come while {name!r} waits")

    def _passed_once_more(self, pair: tuple[str, str], at_ms: float) -> int:
        """What is sent together comes in any order."""
        times, last_ms = self._passed.get(pair, (0, -1.0))
        times += at_ms > last_ms
        self._passed[pair] = times, at_ms
        return times

    def _of_queue(self, queue: str, limit_key: str) -> list[Known]:
        return [
            each for each in self._tasks.values() if each.wanted.queue == queue and limit_key_of(each.name) == limit_key
        ]

    def _waits(self, task: Known, got: Delivered) -> bool:
        """For certain, and for long."""
        if not task.stored or task.delivered or not task.is_where_it_was or task.cancels or task.wanted.expire_at_ms:
            return False
        if self._fair and bucket_of(task.wanted.fire_at_ms) not in self._loaded:
            return False
        return max(task.stored_ms, task.wanted.fire_at_ms, self._started_ms) + SETTLED_MS < got.at_ms


def judged_keyed(seed: int, variant: str = "correct", *, once: bool = False) -> tuple[Verdict, KeyedChecker]:
    """As judge.judged, of a history with keys."""
    with VARIANTS[variant](), sizes_of(seed), noted() as errors:
        story = told(KeyedStory(seed, repeats=None if once else Repeats(seed)))
        # Of what was about to begin when the server was killed; told ignores that it never has.
        gc.collect()
    checker = KeyedChecker(most=limit_of(seed), fair=story.is_fair)
    broken = checker.judge(story.events)
    wrong = sentences(story, broken, errors)
    return Verdict(seed, variant, tuple(wrong), len(story.events), Counter(), once=once), checker
