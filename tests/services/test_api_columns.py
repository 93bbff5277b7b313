"""Tasks as columns: what is stored, and that the ids a caller composes are the engine's."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from hashlib import blake2b
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from tests.services.api_rig import NOW_MS, Rig, running
from timerd.model.identity import encode_id
from timerd.services.calls.mutations import IDS_AT_ONCE
from timerd.services.transport.slices import INLINE_HASH_BYTES, SLICE_ITEMS, hash_of
from timerd.v1 import task_pb2 as task_wire
from timerd.v1 import timer_service_pb2 as wire

BUCKET_MS = 300_000


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with running() as made:
        yield made


def request(columns: wire.TaskColumns, priority: int = 3, **fields: object) -> wire.ScheduleBatchRequest:
    template = task_wire.TaskTemplate(queue="q", priority=priority)
    plain = {"template": template, "request_id": "r"}
    return wire.ScheduleBatchRequest(columns=columns, **(plain | fields))  # type: ignore[arg-type]


def composed(reply: wire.ScheduleBatchResponse, fire_at_ms: list[int]) -> list[str]:
    """As a client does it, from the wire contract alone."""
    place = reply.placement
    buckets = {start: at for at, start in enumerate(place.bucket_start_ms)}
    ids = []
    for index, position in enumerate(place.position_ms or fire_at_ms):
        at = buckets[position - position % place.bucket_length_ms]
        mac = place.macs[at * 8 : at * 8 + 8]
        head = struct.pack(">BqHQB", 1, position, place.shards[at], place.scope, place.priority)
        ids.append(encode_id(head + place.prefix + struct.pack(">I", index) + mac))
    return ids


async def test_composed_ids_are_those_of_the_engine(rig: Rig) -> None:
    fire = [NOW_MS + (n * 7_919) % (5 * BUCKET_MS) for n in range(1_000)]
    payloads = [b"%d" % n for n in range(1_000)]
    columns = wire.TaskColumns(fire_at_ms=fire, payload_lengths=[len(p) for p in payloads], payloads=b"".join(payloads))
    reply = await rig.stub.ScheduleBatch(request(columns))
    assert (reply.stored, len(reply.results), len(reply.placement.position_ms)) == (1_000, 0, 0)
    ids = composed(reply, fire)
    views = {str(view.task_id): view for view in rig.verbs.views.values()}
    assert set(ids) == set(views)
    assert [(views[i].fire_at_ms, views[i].payload) for i in ids] == list(zip(fire, payloads, strict=True))


async def test_ids_follow_tasks_that_were_stored_elsewhere(rig: Rig) -> None:
    rig.verbs.floor_ms = NOW_MS + BUCKET_MS
    fire = [NOW_MS - 5, NOW_MS + 3 * BUCKET_MS]
    reply = await rig.stub.ScheduleBatch(request(wire.TaskColumns(fire_at_ms=fire)))
    assert list(reply.placement.position_ms) == [NOW_MS + BUCKET_MS, fire[1]]
    assert set(composed(reply, fire)) == {str(view.task_id) for view in rig.verbs.views.values()}


async def test_delays_are_answered_with_fire_times(rig: Rig) -> None:
    origin_ms = NOW_MS - 1_000
    reply = await rig.stub.ScheduleBatch(
        request(wire.TaskColumns(delay_ms=[0, 5_000]), request_time=Timestamp(seconds=origin_ms // 1000))
    )
    assert list(reply.fire_at_ms) == [origin_ms, origin_ms + 5_000]
    assert set(composed(reply, list(reply.fire_at_ms))) == {str(v.task_id) for v in rig.verbs.views.values()}


async def test_one_length_speaks_for_all(rig: Rig) -> None:
    columns = wire.TaskColumns(fire_at_ms=[NOW_MS] * 3, payload_lengths=[2], payloads=b"aabbcc")
    await rig.stub.ScheduleBatch(request(columns))
    rows = rig.verbs.scheduled[0].rows
    assert [rows.payload(n) for n in range(3)] == [b"aa", b"bb", b"cc"]


async def test_good_tasks_are_stored_beside_bad_ones(rig: Rig) -> None:
    century_ms = 101 * 366 * 86_400_000
    columns = wire.TaskColumns(
        fire_at_ms=[NOW_MS, -1, NOW_MS + century_ms, NOW_MS + 1, NOW_MS],
        payload_lengths=[1, 1, 1, 1, 70_000],
        payloads=b"abcd" + b"x" * 70_000,
    )
    reply = await rig.stub.ScheduleBatch(request(columns))
    assert reply.stored == 2
    assert not reply.HasField("placement")
    assert [r.index for r in reply.results] == [0, 1, 2, 3, 4]
    assert [r.problem.field for r in reply.results] == [
        "",
        "columns.fire_at_ms[1]",
        "columns.fire_at_ms[2]",
        "",
        "columns.payload_lengths[4]",
    ]
    shown = [(await rig.stub.Get(wire.GetRequest(task_id=reply.results[at].task_id))).task for at in (0, 3)]
    assert [task.payload for task in shown] == [b"a", b"d"]


async def test_bad_delays_and_an_early_expiry_are_told_one_by_one(rig: Rig) -> None:
    template = task_wire.TaskTemplate(queue="q", expire_time=Timestamp(seconds=NOW_MS // 1000 + 10))
    columns = wire.TaskColumns(delay_ms=[-1, 5_000, 10_000, 1 << 60])
    reply = await rig.stub.ScheduleBatch(request(columns, template=template))
    assert reply.stored == 1
    fields = {r.index: r.problem.field for r in reply.results if r.problem.message}
    assert fields == {0: "columns.delay_ms[0]", 2: "template.expire_time", 3: "columns.delay_ms[3]"}


async def test_what_has_expired_is_told_one_by_one(rig: Rig) -> None:
    template = task_wire.TaskTemplate(
        queue="q", expire_after=Duration(seconds=30), soft_expire_after=Duration(seconds=30)
    )
    columns = wire.TaskColumns(fire_at_ms=[NOW_MS - 30_000, NOW_MS - 29_999, NOW_MS])
    reply = await rig.stub.ScheduleBatch(request(columns, template=template))
    assert reply.stored == 2
    assert [r.problem.field for r in reply.results if r.problem.message] == ["template.expire_after"]


@pytest.mark.parametrize(
    "other",
    [
        wire.TaskColumns(fire_at_ms=[NOW_MS, NOW_MS], payload_lengths=[1, 3], payloads=b"abcd"),
        wire.TaskColumns(fire_at_ms=[NOW_MS, NOW_MS], payload_lengths=[2], payloads=b"abcx"),
        wire.TaskColumns(fire_at_ms=[NOW_MS, NOW_MS + 1], payload_lengths=[2], payloads=b"abcd"),
        wire.TaskColumns(delay_ms=[NOW_MS, NOW_MS], payload_lengths=[2], payloads=b"abcd"),
    ],
)
async def test_other_content_is_another_message(rig: Rig, other: wire.TaskColumns) -> None:
    plain = wire.TaskColumns(fire_at_ms=[NOW_MS, NOW_MS], payload_lengths=[2], payloads=b"abcd")
    for columns in (plain, plain, other):
        await rig.stub.ScheduleBatch(request(columns))
    first, again, changed = (tasks.prefix for tasks in rig.verbs.scheduled)
    assert first == again != changed


async def test_large_messages_leave_the_loop_to_others(rig: Rig) -> None:
    """While ten thousand items, ids or megabytes are worked on, the loop turns many times."""
    turns, stop = 0, False

    async def count() -> None:
        nonlocal turns
        while not stop:
            turns += 1
            await asyncio.sleep(0)

    due = Timestamp(seconds=NOW_MS // 1_000)
    items = [wire.TaskItem(fire_time=due, template=task_wire.TaskTemplate(queue="q"))] * 5_000
    batch = wire.ScheduleBatchRequest(items=wire.TaskItems(items=items))
    counting = asyncio.create_task(count())
    mutations = rig.api.verbs()
    reply: Any = await mutations["ScheduleBatch"](batch)
    after_items, turns = turns, 0
    cancel = wire.CancelBatchRequest(task_ids=[result.task_id for result in reply.results])
    await mutations["CancelBatch"](cancel)
    after_ids, stop = turns, True
    await counting
    assert len(reply.results) == 5_000
    assert after_items >= 2 * (5_000 // SLICE_ITEMS)
    # As columns, so that more of them fit into a slice.
    assert after_ids >= 5_000 // IDS_AT_ONCE


@pytest.mark.parametrize("size_bytes", [10, INLINE_HASH_BYTES + 10])
async def test_small_and_large_content_is_hashed_the_same_way(size_bytes: int) -> None:
    head, rest = b"head", bytes(size_bytes)
    assert await hash_of(head, rest) == blake2b(head + rest, digest_size=32).digest()
