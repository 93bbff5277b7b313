"""Sends sealed batches over gRPC: their bytes as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc.aio

from timerd.outbox.chains import send_chains
from timerd.outbox.messages import calls_in, moves_together
from timerd.outbox.outcomes import SendOutcome, of_calls, of_cancels, of_moves, of_schedules, of_whole
from timerd.outbox.rows import CHAINS, RowVerb, SealedBatch
from timerd.sdk.transport import Connection, ConnectOptions, Session, opener
from timerd.sdk.values import TimerdError, error_of_rpc
from timerd.v1 import timer_service_pb2 as pb

_READ: dict[int, Callable[[SealedBatch, Any], SendOutcome]] = {
    RowVerb.SCHEDULE: of_schedules,
    RowVerb.CANCEL: of_cancels,
    RowVerb.RESCHEDULE: of_moves,
}
# Each is some ten steps at the store, one after the other.
MOVES_AT_ONCE = 250
_SERVICE = "/timerd.v1.TimerService/"
_METHODS: dict[int, tuple[str, Any]] = {
    RowVerb.SCHEDULE: ("ScheduleBatch", pb.ScheduleBatchResponse),
    RowVerb.CANCEL: ("CancelBatch", pb.CancelBatchResponse),
    RowVerb.RESCHEDULE: ("RescheduleBatch", pb.RescheduleBatchResponse),
}


class GrpcSending:
    """One channel; made within the event loop. To a server of an earlier release moves go one by one, over a stream:
    for each of them a call is too dear. Raises InvalidTask for options that cannot be right."""

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
        if batch.verb == CHAINS:
            return await send_chains(batch, self.send)
        is_move = batch.verb == RowVerb.RESCHEDULE
        try:
            response = await (self._moved(batch) if is_move else self._call(batch.verb, batch.request))
        except grpc.aio.AioRpcError as failed:
            if is_move and failed.code() is grpc.StatusCode.UNIMPLEMENTED:
                return await self._one_by_one(batch)
            return of_whole(batch, error_of_rpc(failed))
        return _READ[batch.verb](batch, response)

    async def _call(self, verb: int, request: bytes) -> Any:  # noqa: ANN401 - of any verb
        return await self._calls[verb](request, timeout=self._timeout_s)

    async def _moved(self, batch: SealedBatch) -> pb.RescheduleBatchResponse:
        """In several messages, one after the other: each is answered well within its time."""
        calls, together = calls_in(batch.request), pb.RescheduleBatchResponse()
        for at in range(0, len(calls), MOVES_AT_ONCE):
            request = moves_together(batch.namespace, calls[at : at + MOVES_AT_ONCE])
            together.MergeFrom(await self._call(batch.verb, request))
        return together

    async def _one_by_one(self, batch: SealedBatch) -> SendOutcome:
        said = await asyncio.gather(*(self._move(each) for each in calls_in(batch.request)))
        return of_calls(batch, said)

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
