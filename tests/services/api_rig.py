"""The API over an engine of a few lines in memory, on a real port of loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
import grpc.aio
import numpy as np

from timerd.config import ServerConfig
from timerd.core.protocol.keys import Conflict
from timerd.model.errors import AlreadyExists, NotFound, NotStored, Precondition
from timerd.model.identity import RowKey, TaskId, encode_id, mac_of
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.task import Template
from timerd.ports import DeadLetter
from timerd.services.api import TimerApi
from timerd.services.calls.call_deadline import CallDeadline
from timerd.services.calls.reads import DeliveryFacts
from timerd.services.engine.placed_ids import PlacedIds
from timerd.services.engine.verbs import (
    AskedMove,
    CancelAnswer,
    Cursor,
    EngineFacts,
    NewTasks,
    Query,
    State,
    StoredTasks,
    TaskView,
    Views,
)
from timerd.services.server import ApiServer
from timerd.v1 import timer_service_pb2_grpc, work_service_pb2, work_service_pb2_grpc

NOW_MS = 1_800_000_000_000
SHARDS = 4


@dataclass
class FakeVerbs:
    """Verbs in memory. `fail` is raised by every verb where set; `gate` is awaited before a schedule."""

    secret: bytes = b"secret"
    now: int = NOW_MS
    views: dict[bytes, TaskView] = field(default_factory=dict)
    keys: dict[str, TaskId] = field(default_factory=dict)
    dead: list[DeadLetter] = field(default_factory=list)
    fail: Exception | None = None
    gate: Callable[[], Any] | None = None
    # Where tasks are stored that came too late for their own place.
    floor_ms: int = 0
    scheduled: list[NewTasks] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    answers: dict[bytes, bytes] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)
    called: asyncio.Event = field(default_factory=asyncio.Event)

    def now_ms(self) -> int:
        return self.now

    def _called(self, verb: str) -> None:
        self.asked.append(verb)
        self.called.set()
        if self.fail:
            raise self.fail

    def id_of(self, tasks: NewTasks, row: int) -> TaskId:
        columns = tasks.rows.columns[row]
        template = tasks.rows.template_of(row)
        position_ms = max(int(columns["position_ms"]), self.floor_ms)
        bucket_ms = bucket_of(position_ms)
        home = Partition(TIME_SCOPE, bucket_ms, bucket_ms // 300_000 % SHARDS)
        mac = mac_of(self.secret, tasks.namespace, tasks.prefix, home, template.scope, template.priority)
        at = int(columns["index"])
        return TaskId(position_ms, home.shard, template.scope, template.priority, tasks.prefix, at, mac)

    async def schedule(self, tasks: NewTasks) -> StoredTasks:
        self._called("schedule")
        if self.gate:
            await self.gate()
        self.scheduled.append(tasks)
        ids = [self.id_of(tasks, row) for row in range(len(tasks.rows))]
        kept: dict[int, TaskId] = {}
        refused: dict[int, NotStored] = {}
        for row, task in enumerate(ids):
            self._store(tasks, row, task, kept, refused)
        places = np.array([task.position_ms for task in ids], np.int64)
        shards = {task.home.bucket_ms: task.shard for task in ids}
        return StoredTasks(PlacedIds(self.secret, tasks.prefix, tasks.rows, places, shards), kept, refused)

    def _store(
        self, tasks: NewTasks, row: int, task: TaskId, kept: dict[int, TaskId], refused: dict[int, NotStored]
    ) -> None:
        key, policy = tasks.keys.get(row, ("", Conflict.REJECT))
        if key in self.keys and policy is Conflict.KEEP:
            kept[row] = self.keys[key]
            return
        if key in self.keys and policy is Conflict.REJECT:
            refused[row] = AlreadyExists(f"The key {key!r} is taken.", "KEY_TAKEN", field="key")
            return
        fire_at_ms = int(tasks.rows.columns["fire_at_ms"][row])
        template, payload = tasks.rows.template_of(row), tasks.rows.payload(row)
        self.views[task.digest] = TaskView(task, State.PENDING, fire_at_ms, task.position_ms, template, payload, key)
        if key:
            self.keys[key] = task

    async def cancel(self, namespace: str, request_id: str, ids: Sequence[TaskId]) -> Sequence[CancelAnswer]:
        self._called("cancel")
        gone = [self.views.pop(task.digest, None) for task in ids]
        return [CancelAnswer.ALREADY_CANCELLED if view is None else CancelAnswer.CANCELLED for view in gone]

    async def is_stored(self, tasks: NewTasks, refused_now: Collection[int] = ()) -> bool:
        return any(tasks.prefix == before.prefix for before in self.scheduled)

    async def keep_result(self, delivery_id: bytes, result: bytes, keep_ms: int) -> None:
        self.answers.setdefault(b"result" + delivery_id, result)

    async def kept_result(self, delivery_id: bytes) -> bytes | None:
        return self.answers.get(b"result" + delivery_id)

    async def recall(self, request: bytes) -> bytes | None:
        return self.answers.get(request)

    async def remember(self, request: bytes, answer: bytes) -> bytes:
        return self.answers.setdefault(request, answer)

    async def moved_before(self, namespace: str, request: str, task: TaskId) -> int | None:
        return self.moved.get(request)

    async def reschedule(self, namespace: str, moves: Sequence[AskedMove]) -> Sequence[int | NotStored]:
        self._called("reschedule")
        return list(map(self._moved, moves))

    def _moved(self, asked: AskedMove) -> int | NotStored:
        if asked.task.digest not in self.views:
            return Precondition("The task has ended.", "TASK_ENDED")
        self.views[asked.task.digest] = replace(self.views[asked.task.digest], fire_at_ms=asked.fire_at_ms)
        self.moved[asked.request] = asked.fire_at_ms
        return asked.fire_at_ms

    async def get(self, namespace: str, task: TaskId) -> TaskView:
        self._called("get")
        return self.views[task.digest]

    async def resolve_key(self, namespace: str, key: str, request: bytes = b"") -> TaskId:
        self._called("resolve_key")
        if key not in self.keys:
            raise NotFound(f"No task has the key {key!r}.", "KEY_NOT_FOUND", field="key")
        return self.keys[key]

    async def resolve_keys(self, namespace: str, keys: Sequence[str], request: bytes) -> Sequence[TaskId | None]:
        self._called("resolve_keys")
        return [self.keys.get(key) for key in keys]

    async def resolve_each(self, namespace: str, keys: Sequence[tuple[str, bytes]]) -> Sequence[TaskId | None]:
        self._called("resolve_each")
        return [self.keys.get(key) for key, _ in keys]

    def _matching(self, query: Query, after: Cursor | None) -> list[TaskView]:
        found = [
            view
            for view in self.views.values()
            if query.lo_ms <= view.fire_at_ms < query.hi_ms
            and (not query.queue or (view.template and view.template.queue == query.queue))
            and (after is None or (view.fire_at_ms, view.task_id.digest) > after)
        ]
        return sorted(found, key=lambda view: (view.fire_at_ms, view.task_id.digest))

    async def list(self, query: Query, after: Cursor | None, limit: int, max_scanned: int, *, payload: bool) -> Views:
        self._called("list")
        found = self._matching(query, after)
        page = found[:limit]
        more = Cursor(page[-1].fire_at_ms, page[-1].task_id.digest) if len(found) > limit else None
        return Views(page, more, page[-1].fire_at_ms if more else query.hi_ms)

    async def count(self, query: Query, after: Cursor | None, max_scanned: int) -> tuple[int, Cursor | None, int]:
        self._called("count")
        page = await self.list(query, after, max_scanned, max_scanned, payload=False)
        return len(page.views), page.cursor, page.scanned_through_ms

    async def estimate(self, namespace: str, queue: str) -> int:
        self._called("estimate")
        return 42

    async def purge(self, query: Query, after: Cursor | None, max_scanned: int) -> tuple[int, Cursor | None, int, int]:
        self._called("purge")
        page = await self.list(query, after, max_scanned, max_scanned, payload=False)
        for view in page.views:
            del self.views[view.task_id.digest]
        return len(page.views), page.cursor, page.scanned_through_ms, 0

    def put_dead_letters(self, tasks: NewTasks, row: int, died_at_ms: int) -> str:
        task = self.id_of(tasks, row)
        key = RowKey(task.position_ms, task.digest, 0)
        template = tasks.rows.template_of(row)
        letter = DeadLetter(
            task.to_bytes(), key, task.home, template, task.position_ms, died_at_ms, 20, "boom", tasks.rows.payload(row)
        )
        self.dead.append(letter)
        return encode_id(letter.task_id)

    async def dead_letters(
        self, namespace: str, queue: str, lo_ms: int, hi_ms: int, after: bytes, limit: int
    ) -> Sequence[DeadLetter]:
        self._called("dead_letters")
        found = [d for d in self.dead if lo_ms <= d.died_at_ms < hi_ms and queue in ("", d.template.queue)]
        return [d for d in found if d.died_at_ms.to_bytes(8, "big") + d.task_id > after][:limit]

    async def purge_dead_letters(self, dead_letters: Sequence[DeadLetter]) -> int:
        self._called("purge_dead_letters")
        self.dead = [letter for letter in self.dead if letter not in dead_letters]
        return len(dead_letters)

    async def halting(self, _: Sequence[DeadLetter]) -> Collection[bytes]:
        return ()

    async def redrive(self, namespace: str, request: str, ids: Sequence[TaskId], asked_ms: int) -> Sequence[bool]:
        self._called("redrive")
        there = {letter.task_id for letter in self.dead}
        wanted = {task.to_bytes() for task in ids}
        self.dead = [letter for letter in self.dead if letter.task_id not in wanted]
        return [task.to_bytes() in there for task in ids]

    async def facts(self) -> EngineFacts:
        self._called("facts")
        return EngineFacts(
            "fsync", "memory", self.now + 0.5, 3.2, True, 10, 20, {"inserted": 7, "unexplained": -1}, 2, 30, 40, 5,
            0, self.now - 90_000, [1.0, 2.0], [3, 4], ["All is well."],
        )  # fmt: skip


class EchoWork(work_service_pb2_grpc.WorkServiceServicer):
    """A WorkService that answers nothing and stays open as long as its client."""

    async def Work(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[work_service_pb2.WorkResponse]:  # noqa: ANN401
        async for _ in requests:
            yield work_service_pb2.WorkResponse()


@dataclass
class Rig:
    verbs: FakeVerbs
    api: TimerApi
    server: ApiServer
    target: str
    channel: grpc.aio.Channel
    stub: Any


@asynccontextmanager
async def running(
    verbs: FakeVerbs | None = None,
    call_deadline: CallDeadline | None = None,
    **settings: Any,  # noqa: ANN401
) -> AsyncIterator[Rig]:
    """A server on a free port of loopback, and a channel to it."""
    config = ServerConfig(**{"listen": "127.0.0.1:0", **settings})
    engine = verbs or FakeVerbs()
    api = TimerApi(engine, config, lambda: DeliveryFacts(in_flight=6, workers=2), call_deadline=call_deadline)
    server = ApiServer(config, api, EchoWork())
    address = await server.start()
    await server.set_serving(serving=True)
    channel = grpc.aio.insecure_channel(str(address), options=[("grpc.use_local_subchannel_pool", 1)])
    try:
        yield Rig(engine, api, server, str(address), channel, timer_service_pb2_grpc.TimerServiceStub(channel))
    finally:
        await channel.close()
        await server.stop(0)


def template_of(tasks: NewTasks) -> Template:
    return tasks.rows.templates[0]


def trailers(error: grpc.aio.AioRpcError) -> dict[str, Any]:
    return dict(tuple(error.trailing_metadata() or ()))
