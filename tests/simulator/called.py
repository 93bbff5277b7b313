"""Histories with callers that wait for what becomes of their tasks, on one instance or on several.

Each call is made again as the same call until it is told an end, or its time is over: after its instance was killed,
left, or refused it, and while an earlier try is under way. The same checkers judge its task, and beside them each
answer (R1): it comes in time, names the same task each time, and the end that it tells is the one that stands, with a
result that a worker has said.
"""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

from tests.simulator.chances import QUEUES
from tests.simulator.checker import CLEAN_STOP_MS, Checker
from tests.simulator.cluster.branches import watched_cluster
from tests.simulator.cluster.checker import ClusterChecker
from tests.simulator.cluster.forms import ClusterForm
from tests.simulator.cluster.instance import Door, Instance
from tests.simulator.cluster.judge import STOP_MS
from tests.simulator.cluster.story import ClusterStory
from tests.simulator.events import Called, Settled, Verb, Wanted
from tests.simulator.faults import FaultyStore
from tests.simulator.judge import Verdict, noted, sentences
from tests.simulator.repeats import Repeats
from tests.simulator.server import Run
from tests.simulator.sizes import sizes_of
from tests.simulator.story import Story, Told, told
from tests.simulator.virtual_loop import Owner
from tests.simulator.worker import ACK, InHand, Worker
from timerd.config import ServerConfig
from timerd.model.identity import parse_task_id
from timerd.services.api import TimerApi
from timerd.services.calls.due_times import MAX_WAIT_MS
from timerd.services.calls.results import KeptResults
from timerd.services.node import Node
from timerd.services.work.work_service import WorkService
from timerd.v1 import timer_service_pb2 as wire
from timerd.v1 import work_service_pb2 as pb
from timerd.v1.task_pb2 import TaskState

TIMEOUTS_MS = (0, 50, 1_000, 5_000, 20_000)
# What a task has left when nobody waits for it any more.
EXPIRES_AFTER_MS = (0, 1_000, 5_000, 60_000)
AGAIN_S = (0.05, 0.3, 1.0)
KEPT_MS = 60_000
# Beyond what was asked for: of the store where it is slow, and of an instance that is stopped or cut off.
LATE_BY_MS = MAX_WAIT_MS


@dataclass(frozen=True, slots=True)
class Answer:
    """What one try was told. `may_take_ms`: how long it may wait."""

    name: str
    began_ms: float
    at_ms: float
    may_take_ms: int
    reply: wire.CallResponse

    @property
    def digest(self) -> bytes:
        """Of its task, whose id may name one of two places."""
        task = parse_task_id(self.reply.task_id)
        return task.digest if task is not None else b""

    @property
    def state(self) -> str:
        return TaskState.Name(self.reply.state).removeprefix("TASK_STATE_")


def result_said(name: str, attempt: int, worker: str) -> bytes:
    return f"{name} {attempt} {worker}".encode()


@dataclass
class AnsweringWorker(Worker):
    """Each of its acks has a result."""

    def _add_result(self, asked: pb.Settle, held: InHand) -> None:
        if asked.action == ACK and held.name.startswith("call"):
            asked.result.value = result_said(held.name, held.attempt, self.name)
            asked.keep_result_ms = KEPT_MS


class CalledRun(Run):
    """With the API of production in front of the engine."""

    def _assemble(self, clock: Any, store: Any, config: ServerConfig, settings: Any) -> Node:
        node = super()._assemble(clock, store, config, settings)
        self.api = TimerApi(node.engine, config)
        node.delivery.on_durable(self.api.ends.settled)
        return node

    def _results(self) -> KeptResults:
        return self.api.results

    async def stop(self) -> None:
        self.owner.context.run(self.api.ends.stop)
        await super().stop()


class CalledInstance(Instance):
    api: TimerApi

    def _door(self, config: ServerConfig, api: Any, work: WorkService, inside: Sequence[Any]) -> Door:
        self.api = api
        return super()._door(config, api, work, inside)

    async def stop(self) -> None:
        self.owner.context.run(self.api.ends.stop)
        await super().stop()


@dataclass
class Callers:
    """Of one history, by chances of their own. `answers`: what they were told."""

    story: Story
    random: Random
    answers: list[Answer] = field(default_factory=list)
    count: int = 0

    def begin_some(self) -> None:
        for _ in range(self.random.choice((0, 1, 1, 2))):
            self.count += 1
            self.story.to_come.append(self.story.spawn(self._calls(f"call{self.count}")))

    async def _calls(self, name: str) -> None:
        """Until it is told an end, or nobody cares any more."""
        loop, chance = self.story.loop, self.random.choice
        timeout_ms, expires_ms, made_ms = chance(TIMEOUTS_MS), chance(EXPIRES_AFTER_MS), int(loop.now_ms)
        expire_at_ms = made_ms + expires_ms if expires_ms else 0
        wanted = Wanted(made_ms, chance(QUEUES), expire_at_ms=expire_at_ms, expire_after_ms=expires_ms)
        until_ms = loop.now_ms + timeout_ms
        while True:
            before = len(self.answers)
            await self._once(name, wanted, max(0, int(until_ms - loop.now_ms)))
            if any(each.name == name and each.reply.has_ended for each in self.answers[before:]):
                return
            if loop.now_ms >= until_ms:
                return
            await asyncio.sleep(chance(AGAIN_S))

    async def _once(self, name: str, wanted: Wanted, timeout_ms: int) -> None:
        story = self.story
        called = story._called(Verb.SCHEDULE, name, (name,), wanted=(wanted,))
        request = request_of(name, wanted, timeout_ms)

        async def work(run: Any) -> Told:
            began_ms = story.loop.now_ms
            reply = await run.api.calling.call(request)
            task = parse_task_id(reply.task_id)
            assert task is not None
            story.named(name, task)
            self.answers.append(Answer(name, began_ms, story.loop.now_ms, timeout_ms, reply))
            return ["stored"], [task.digest.hex()]

        await story.ask(called, work)


def request_of(name: str, wanted: Wanted, timeout_ms: int) -> wire.CallRequest:
    """But for the time-out the same each time."""
    request = wire.CallRequest(request_id=name, payload=name.encode())
    request.template.queue = wanted.queue
    request.template.retry.max_attempts = wanted.max_attempts
    request.template.retry.initial_backoff.FromMilliseconds(500)
    request.request_time.FromMilliseconds(wanted.fire_at_ms)
    request.timeout.FromMilliseconds(timeout_ms)
    if wanted.expire_after_ms:
        request.template.expire_after.FromMilliseconds(wanted.expire_after_ms)
    return request


class CalledStory(Story):
    worker_type: ClassVar[type[Worker]] = AnsweringWorker

    def __post_init__(self) -> None:
        super().__post_init__()
        self.callers = Callers(self, Random(f"calls {self.seed}"))
        # What is called at once goes before what is loaded.
        self.is_ordered = False

    def run_on(self, owner: Owner, store: FaultyStore) -> Run:
        return CalledRun(self.loop, owner, store, self.config, self.settings)

    def _do(self, deed: str) -> None:
        self.callers.begin_some()
        super()._do(deed)


class CalledClusterStory(ClusterStory):
    worker_type: ClassVar[type[Worker]] = AnsweringWorker
    instance_type: ClassVar[type[Instance]] = CalledInstance

    def __post_init__(self) -> None:
        super().__post_init__()
        self.callers = Callers(self, Random(f"calls {self.seed}"))

    def _do(self, deed: str) -> None:
        self.callers.begin_some()
        super()._do(deed)


# -- the judge ---------------------------------------------------------------------------------------------------------


def untrue(story: Story, answers: Sequence[Answer], looks: dict[str, str]) -> Iterator[str]:
    """`looks`: how each task stood when all had run out."""
    said, ids, results = _said(story), defaultdict[str, set[bytes]](set), defaultdict[str, set[bytes]](set)
    again = {name for each in story.events if isinstance(each, Called) and _lives_again(each) for name in each.names}
    for answer in answers:
        name, reply = answer.name, answer.reply
        ids[name].add(answer.digest)
        if answer.at_ms - answer.began_ms > answer.may_take_ms + LATE_BY_MS:
            yield f"R1: {name} waited for {answer.at_ms - answer.began_ms:.0f} ms, and asked for {answer.may_take_ms}"
        if not reply.has_ended:
            continue
        final = looks.get(name, "")
        if answer.state == "ACKED":
            results[name].add(reply.result.value)
            if (reply.result.value, True) not in {(value, at_ms <= answer.at_ms) for value, at_ms in said[name]}:
                yield f"R1: {name} was told the result {reply.result.value!r}, which nobody had said"
        if final not in (answer.state, "FINISHED") and not (answer.state == "DEAD" and name in again):
            yield f"R1: {name} was told to be {answer.state}, and is {final}"
    yield from (f"G2: a repeat of {name} was about another task" for name, told_ids in ids.items() if len(told_ids) > 1)
    yield from (f"R1: {name} was told several results" for name, values in results.items() if len(values) > 1)


def _said(story: Story) -> defaultdict[str, list[tuple[bytes, float]]]:
    """Results of each task, and when they were said."""
    said = defaultdict[str, list[tuple[bytes, float]]](list)
    for each in story.events:
        if isinstance(each, Settled) and each.action == "ack":
            said[each.name].append((result_said(each.name, each.attempt, each.worker), each.at_ms))
    return said


def _lives_again(called: Called) -> bool:
    return called.verb in (Verb.REDRIVE, Verb.MOVE)


def _verdict(
    story: Story, callers: Callers, checker: Checker, broken: Sequence[tuple[int, str]], errors: Any
) -> Verdict:
    wrong = [*broken, *((len(story.events) - 1, each) for each in untrue(story, callers.answers, checker._looks))]
    hits = Counter(each.state if each.reply.has_ended else "open" for each in callers.answers)
    hits["calls"] = callers.count
    return Verdict(story.seed, "correct", tuple(sentences(story, wrong, errors)), len(story.events), hits)


def judged_called(seed: int) -> Verdict:
    """As judge.judged."""
    with sizes_of(seed), noted() as errors:
        story = told(CalledStory(seed, repeats=Repeats(seed)))
    checker = Checker(ordered=False)
    return _verdict(story, story.callers, checker, checker.judge(story.events), errors)


def judged_called_cluster(seed: int) -> Verdict:
    """As cluster.judge.judged."""
    with sizes_of(seed), watched_cluster(), noted() as errors:
        story = told(CalledClusterStory(seed, repeats=Repeats(seed)))
    stop_ms = STOP_MS if story.shape is ClusterForm.OVERRUN else CLEAN_STOP_MS
    checker = ClusterChecker(story.timing.ttl_ms, story.skew_ms, story.way_ms, stop_ms)
    broken = sorted(checker.judge(story.events) + story.broken)
    return _verdict(story, story.callers, checker, broken, errors)
