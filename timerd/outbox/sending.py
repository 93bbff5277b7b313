"""Sends sealed batches over gRPC: their bytes as they are."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc.aio

from timerd.outbox.messages import calls_in
from timerd.outbox.outcomes import SendOutcome, of_calls, of_cancels, of_schedules, of_whole
from timerd.outbox.rows import RowVerb, SealedBatch
from timerd.sdk.transport import Connection, ConnectOptions, Session, opener
from timerd.sdk.values import TimerdError, error_of_rpc
from timerd.v1 import timer_service_pb2 as pb

_SERVICE = "/timerd.v1.TimerService/"
_METHODS: dict[int, tuple[str, Any]] = {
    RowVerb.SCHEDULE: ("ScheduleBatch", pb.ScheduleBatchResponse),
    RowVerb.CANCEL: ("CancelBatch", pb.CancelBatchResponse),
}


class GrpcSending:
    """One channel; made within the event loop. Moves go over a stream, for which a call is too dear. Raises InvalidTask
    for options that cannot be right."""

    def __init__(self, options: ConnectOptions, timeout_s: float) -> None:
        connection = Connection(options)
        self._channel = connection.open_channel()
        self._timeout_s = timeout_s
        self._calls: dict[int, Any] = {
            verb: self._channel.unary_unary(
                _SERVICE + method, request_serializer=None, response_deserializer=kind.FromString
            )
            for verb, (method, kind) in _METHODS.items()
        }
        open_stream = opener(self._channel, _SERVICE + "Session", pb.SessionResponse.FromString)
        self._session = Session(open_stream, connection.target, timeout_s)

    async def send(self, batch: SealedBatch) -> SendOutcome:
        if batch.verb == RowVerb.RESCHEDULE:
            said = await asyncio.gather(*(self._move(each) for each in calls_in(batch.request)))
            return of_calls(batch, said)
        try:
            response: Any = await self._calls[batch.verb](batch.request, timeout=self._timeout_s)
        except grpc.aio.AioRpcError as failed:
            return of_whole(batch, error_of_rpc(failed))
        return of_schedules(batch, response) if batch.verb == RowVerb.SCHEDULE else of_cancels(batch, response)

    async def _move(self, request: bytes) -> TimerdError | None:
        asked = self._session.new_request()
        asked.reschedule.MergeFromString(request)
        try:
            await self._session.call(asked)
        except TimerdError as failed:
            return failed
        return None

    async def close(self) -> None:
        await self._session.close()
        await self._channel.close()
