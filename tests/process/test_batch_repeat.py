"""A kill between the commit of a batch and its reply, and the caller's repeat: one batch, whatever the caller knew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.process.failpoints.rig import QUEUE, Rig, moment
from tests.process.waiting import eventually
from timerd.demo.records import CallRecord
from timerd.sdk.values.ids import Composer
from timerd.v1 import timer_service_pb2 as pb
from timerd.v1 import timer_service_pb2_grpc as rpc
from timerd.v1.task_pb2 import TaskTemplate

pytestmark = pytest.mark.process
TASKS = 1_000
BUCKET_MS = 300_000
BUCKETS = 3


def batch_of(first_ms: int) -> pb.ScheduleBatchRequest:
    """Task n is due in bucket n % 3."""
    payloads = [b"%d" % number for number in range(TASKS)]
    columns = pb.TaskColumns(
        payloads=b"".join(payloads),
        payload_lengths=map(len, payloads),
        fire_at_ms=[first_ms + (n % BUCKETS) * BUCKET_MS + n for n in range(TASKS)],
    )
    return pb.ScheduleBatchRequest(request_id="mine", template=TaskTemplate(queue=QUEUE), columns=columns)


@pytest.mark.parametrize(("point", "was_stored"), [("committed", True), ("before the commit", False)])
async def test_a_batch_over_three_buckets_is_stored_once(tmp_path: Path, point: str, was_stored: bool) -> None:
    async with Rig(tmp_path) as rig:
        await rig.start(point)
        first_ms = (int(rig.notes.now_ms()) // BUCKET_MS + 1) * BUCKET_MS
        request = batch_of(first_ms)
        async with grpc.aio.insecure_channel(rig.address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as lost:
                await stub_on(channel).ScheduleBatch(request)
        assert lost.value.code() is grpc.StatusCode.UNAVAILABLE
        await rig.fails()
        await rig.comes_back()
        assert await listed(rig, first_ms) == (TASKS if was_stored else 0)
        async with grpc.aio.insecure_channel(rig.address) as channel:
            replies = [await stub_on(channel).ScheduleBatch(request, wait_for_ready=True) for _ in range(2)]
        assert replies[0] == replies[1]
        assert replies[0].stored == TASKS
        assert len(replies[0].placement.bucket_start_ms) == BUCKETS
        assert await listed(rig, first_ms) == TASKS
        ids = note_answers(rig, request, replies[0])
        # All three buckets are over by then.
        await rig.is_killed(ahead_s=(BUCKETS + 2) * BUCKET_MS / 1000)
        rig.work()
        came = await rig.judged()
        assert len(came) == TASKS
        assert {each.number: each.task_id for each in came} == ids
        await eventually(lambda: is_finished(rig), "the ledger is complete")


def stub_on(channel: grpc.aio.Channel) -> Any:  # noqa: ANN401 - the stub has no types
    return rpc.TimerServiceStub(channel)


def note_answers(rig: Rig, request: pb.ScheduleBatchRequest, reply: pb.ScheduleBatchResponse) -> dict[int, str]:
    """What the caller was told, for the verdict; number -> task id."""
    fire_at_ms = request.columns.fire_at_ms
    composer, now_ms = Composer(reply.placement, fire_at_ms), rig.notes.now_ms()
    ids = {number: composer.task_id(number) for number in range(TASKS)}
    rig.notes.write(CallRecord("schedule", n, now_ms, now_ms, "OK", ids[n], fire_at_ms[n]) for n in range(TASKS))
    return ids


async def listed(rig: Rig, first_ms: int) -> int:
    """By the server's own list."""
    end = moment(first_ms + BUCKETS * BUCKET_MS)
    return len([task async for task in rig.client.list(queue=QUEUE, start=moment(first_ms), end=end)])


async def is_finished(rig: Rig) -> bool:
    info = await rig.client.server_info()
    assert (info.ledger.inserted - info.ledger.carried, info.ledger.unexplained) == (TASKS, 0), info.ledger
    return info.partitions_open == 0 and info.ledger.acked == TASKS
