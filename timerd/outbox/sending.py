"""Sends sealed batches over gRPC: their bytes as they are."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc.aio

from timerd.outbox.messages import calls_in
from timerd.outbox.outcomes import SendOutcome, of_calls, of_cancels, of_schedules, of_whole
from timerd.outbox.rows import RowVerb, SealedBatch
from timerd.sdk.transport import Connection, ConnectOptions
from timerd.sdk.values import TimerdError, error_of_rpc
from timerd.v1 import timer_service_pb2 as pb

# Of moves so many at a time.
CALLS_AT_ONCE = 64
_SERVICE = "/timerd.v1.TimerService/"
_METHODS: dict[int, tuple[str, Any]] = {
    RowVerb.SCHEDULE: ("ScheduleBatch", pb.ScheduleBatchResponse),
    RowVerb.CANCEL: ("CancelBatch", pb.CancelBatchResponse),
    RowVerb.RESCHEDULE: ("Reschedule", pb.RescheduleResponse),
}


class GrpcSending:
    """One channel; made within the event loop. Raises InvalidTask for options that cannot be right."""

    def __init__(self, options: ConnectOptions, timeout_s: float) -> None:
        self._channel = Connection(options).open_channel()
        self._timeout_s = timeout_s
        self._calls: dict[int, Any] = {
            verb: self._channel.unary_unary(
                _SERVICE + method, request_serializer=None, response_deserializer=kind.FromString
            )
            for verb, (method, kind) in _METHODS.items()
        }
        self._room = asyncio.Semaphore(CALLS_AT_ONCE)

    async def send(self, batch: SealedBatch) -> SendOutcome:
        if batch.verb == RowVerb.RESCHEDULE:
            said = await asyncio.gather(*(self._call(batch.verb, each) for each in calls_in(batch.request)))
            return of_calls(batch, said)
        try:
            response: Any = await self._calls[batch.verb](batch.request, timeout=self._timeout_s)
        except grpc.aio.AioRpcError as failed:
            return of_whole(batch, error_of_rpc(failed))
        return of_schedules(batch, response) if batch.verb == RowVerb.SCHEDULE else of_cancels(batch, response)

    async def _call(self, verb: int, request: bytes) -> TimerdError | None:
        async with self._room:
            try:
                await self._calls[verb](request, timeout=self._timeout_s)
            except grpc.aio.AioRpcError as failed:
                return error_of_rpc(failed)
        return None

    async def close(self) -> None:
        await self._channel.close()
