"""Writes down what operators do: who, from where, which verb, with what, and what became of it. In the store, and in a
file where one is named.

It stands behind the check of roles, so a caller that may not do it does not fill the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.json_format import Error, MessageToDict
from google.protobuf.message import Message

from timerd.model.errors import StoreUnavailable, StoreUnknown, Unavailable
from timerd.services.transport.access import REGULATION_WRITES
from timerd.services.transport.audit_log import AuditLog, AuditRecord
from timerd.services.transport.audit_records import AuditRecords, iso_of, new_call_id
from timerd.services.transport.decoding import Received
from timerd.services.transport.handlers import Behaviour, Handler, behaviour_of, remade
from timerd.services.transport.permission import caller_name
from timerd.services.transport.status import Context, abort, problem_of

_TIMER = "/timerd.v1.TimerService/"
AUDITED = {
    *(f"{_TIMER}{name}" for name in ("Purge", "PurgeDeadLetters", "Redrive")),
    *(f"{_TIMER}{name}" for name in ("DrainInstance", "AnnounceLoad", "SweepZones")),
    *(f"/timerd.v1.RegulationService/{name}" for name in REGULATION_WRITES),
}
# Of a text within a request or a reply.
_MOST_CHARS = 1_000


class Audit(grpc.aio.ServerInterceptor):
    """`log`: the file, where one is named."""

    def __init__(self, records: AuditRecords, log: AuditLog | None) -> None:
        self._records = records
        self._log = log

    def begin(self) -> None:
        """Raises StartupError where it could not write into the file."""
        if self._log is not None:
            self._log.begin(self._now())

    def _now(self) -> str:
        return iso_of(self._records.now_ms())

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler: Any = await continuation(handler_call_details)
        method = str(handler_call_details.method)
        if handler is None or method not in AUDITED:
            return handler  # type: ignore[no-any-return]
        return remade(handler, self._written_down(behaviour_of(handler), method.rpartition("/")[2]))

    def _written_down(self, behaviour: Behaviour, method: str) -> Behaviour:
        async def run(request: object, context: Context) -> object:
            call_id = new_call_id(self._records.now_ms())
            await self._ask(call_id, method, request, context)
            outcome: str = "unknown"
            result: object = None
            try:
                reply = await behaviour(request, context)
                outcome, result = "OK", _fields(reply)
                return reply
            except grpc.aio.BaseError as refused:
                outcome, result = _refusal(refused, context)
                raise
            finally:
                await asyncio.shield(self._end(call_id, outcome, result))

        return run

    async def _ask(self, call_id: str, method: str, request: object, context: Context) -> None:
        """Nothing is done where it cannot be written down."""
        record = {
            "at": self._now(),
            "id": call_id,
            "stage": "asked",
            "caller": caller_name(),
            "peer": context.peer(),
            "method": method,
            "request": _fields(request.parsed if isinstance(request, Received) else request),
        }
        try:
            await self._write(record)
        except OSError as error:
            refused = Unavailable(
                f"The server cannot write its audit log ({error.strerror}), so nothing was done: make room for it, or "
                "let the server write there, then repeat the call.",
                "NOT_AUDITED",
            )
            await abort(context, problem_of(refused))
        except (StoreUnavailable, StoreUnknown):
            refused = Unavailable(
                "The server cannot write down in its store what was asked, so nothing was done: see what `timerd "
                "doctor` says of the store, then repeat the call.",
                "NOT_AUDITED",
            )
            await abort(context, problem_of(refused))

    async def _write(self, record: AuditRecord) -> None:
        if self._log is not None:
            await asyncio.to_thread(self._log.write, record)
        await self._records.write(record)

    async def _end(self, call_id: str, outcome: str, result: object) -> None:
        record = {"at": self._now(), "id": call_id, "stage": "ended", "outcome": outcome, "result": result}
        try:
            await self._write(record)
        except (OSError, StoreUnavailable, StoreUnknown) as error:
            # It was done, and that it was asked for is written down.
            problem_of(error)


def _fields(message: object) -> AuditRecord:
    """An instant that is none cannot be JSON: what is wrong with a call is said after it was written down."""
    if not isinstance(message, Message):
        return {}
    try:
        found: AuditRecord = MessageToDict(message, preserving_proto_field_name=True)
    except (Error, ValueError, OverflowError):
        return {"unreadable": _short([str(message)])}
    return {name: _short(value) for name, value in found.items()}


def _short(value: object) -> object:
    if isinstance(value, list | dict) and len(str(value)) > _MOST_CHARS:
        return f"{len(value)} entries"
    return value[:_MOST_CHARS] if isinstance(value, str) else value


def _refusal(refused: grpc.aio.BaseError, context: Context) -> tuple[str, str]:
    """Its code and its sentence; gRPC keeps them with the call, another door with the error."""
    code = getattr(refused, "code", None) or context.code()
    sentence = getattr(refused, "message", None) or context.details()
    name = code.name if isinstance(code, grpc.StatusCode) else str(code)
    return name, sentence if isinstance(sentence, str) else bytes(sentence).decode("utf-8", "replace")


__all__ = ["AUDITED", "Audit"]
