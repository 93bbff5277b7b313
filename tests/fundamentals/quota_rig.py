"""One call that schedules, which is not made again: the SDK waits and tries where there is a quota."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc
import grpc.aio
from google.protobuf.timestamp_pb2 import Timestamp

from timerd.sdk.values import error_of_rpc
from timerd.testing import Server
from timerd.v1 import timer_service_pb2 as pb
from timerd.v1.task_pb2 import TaskTemplate
from timerd.v1.timer_service_pb2_grpc import TimerServiceStub

Schedule = Callable[..., Awaitable[pb.ScheduleBatchResponse]]


@asynccontextmanager
async def scheduling(server: Server) -> AsyncIterator[Schedule]:
    async with grpc.aio.insecure_channel(server.address) as channel:
        stub = TimerServiceStub(channel)

        async def call(
            count: int, namespace: str = "shop", request_id: str = "", size: int = 1, delay_s: int = 3_600
        ) -> pb.ScheduleBatchResponse:
            due = Timestamp(seconds=int(server.now.timestamp()) + delay_s)
            request = pb.ScheduleBatchRequest(
                namespace=namespace, request_id=request_id, template=TaskTemplate(queue="mails")
            )
            request.items.items.extend(pb.TaskItem(fire_time=due, payload=b"x" * size) for _ in range(count))
            try:
                reply: pb.ScheduleBatchResponse = await stub.ScheduleBatch(request)
            except grpc.aio.AioRpcError as refused:
                raise error_of_rpc(refused) from refused
            return reply

        yield call
