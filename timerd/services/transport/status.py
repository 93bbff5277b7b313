"""Errors -> what a caller sees: a Problem inside replies, a google.rpc.Status where a call as a whole fails.

The one table: the class of a NotStored names its gRPC code (model/errors.py), and only these carry an ErrorInfo of
domain "timerd", which says "nothing was stored" (guarantee G2). Everything else is an unknown outcome: it has no
ErrorInfo, shows no internals, and is logged under an incident id that the caller sees too.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable
from typing import Any, NoReturn, TypeVar

import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from timerd.model.errors import CorruptRow, HolderBusy, NotStored, NotUnderstood, StoreUnknown
from timerd.v1.task_pb2 import Problem

DOMAIN = "timerd"
# Status and details travel in headers, of which clients take 8 KiB by default.
MAX_SENTENCE_CHARS = 1_000
_INCIDENT = "incident "
_REPEAT = "repeat the call with the same request_id, which is safe."
_LOG = logging.getLogger("timerd.api")
_BY_NUMBER: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}
T = TypeVar("T")
Context = grpc.aio.ServicerContext[Any, Any]


def code_of(error: NotStored) -> grpc.StatusCode:
    return grpc.StatusCode[error.code]


def problem_of(error: Exception) -> Problem:
    if isinstance(error, NotStored):
        number: int = code_of(error).value[0]
        sentence = str(error)[:MAX_SENTENCE_CHARS]
        return Problem(
            code=number,
            message=sentence,
            reason=error.reason,
            retry_after_ms=error.retry_after_ms,
            field=error.field,
            only_this_try=error.only_this_try,
        )
    return _unknown(error)


def _incident_of(error: Exception) -> str:
    """Made and logged once: one error is one incident, however many are told of it."""
    for note in getattr(error, "__notes__", ()):
        if note.startswith(_INCIDENT):
            return str(note.removeprefix(_INCIDENT))
    incident = secrets.token_hex(4)
    error.add_note(_INCIDENT + incident)
    if isinstance(error, StoreUnknown):
        # Foreseen: its sentence says what happened, and where it was raised says no more.
        _LOG.warning("incident %s: %s", incident, error)
    else:
        _LOG.error("incident %s: %s", incident, error, exc_info=error)
    return incident


def _unknown(error: Exception) -> Problem:
    incident = _incident_of(error)
    if isinstance(error, HolderBusy):
        code = grpc.StatusCode.UNKNOWN
        sentence = f"{error} What of the call is done stays done: {_REPEAT}"
    elif isinstance(error, StoreUnknown):
        code = grpc.StatusCode.UNKNOWN
        sentence = f"The store did not say whether it wrote, so the outcome is unknown: {_REPEAT}"
    elif isinstance(error, NotUnderstood):
        code = grpc.StatusCode.UNKNOWN
        sentence = f"{error} The outcome is unknown."
    elif isinstance(error, CorruptRow):
        code = grpc.StatusCode.DATA_LOSS
        sentence = "A stored row does not match its checksum and is not used: `timerd doctor` says what to do."
    else:
        code = grpc.StatusCode.INTERNAL
        sentence = f"The server met an unexpected error, so the outcome is unknown: {_REPEAT}"
    number: int = code.value[0]
    return Problem(code=number, message=f"{sentence} The server's log has details under incident {incident}.")


async def caught(work: Awaitable[T]) -> T | Problem:
    """The last line before the wire: no exception of ours passes it."""
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - logged with an incident id, or ours
        return problem_of(error)


def _details(problem: Problem) -> list[Message]:
    if not problem.reason:
        return []
    metadata = {"only_this_try": "true"} if problem.only_this_try else None
    details: list[Message] = [ErrorInfo(reason=problem.reason, domain=DOMAIN, metadata=metadata)]
    if problem.field:
        violation = BadRequest.FieldViolation(field=problem.field, description=problem.message)
        details.append(BadRequest(field_violations=[violation]))
    if problem.retry_after_ms:
        wait = Duration(seconds=problem.retry_after_ms // 1000, nanos=problem.retry_after_ms % 1000 * 1_000_000)
        details.append(RetryInfo(retry_delay=wait))
    return details


def trailers_of(problem: Problem) -> tuple[tuple[str, str | bytes], ...]:
    """google.rpc.Status for those who have its library, plain text for those who have not."""
    status = Status(code=problem.code, message=problem.message)
    for detail in _details(problem):
        packed = AnyMessage()
        packed.Pack(detail)
        status.details.append(packed)
    trailers: list[tuple[str, str | bytes]] = [(rpc_status.GRPC_DETAILS_METADATA_KEY, status.SerializeToString())]
    if problem.reason:
        trailers.append(("timerd-reason", problem.reason))
    if problem.retry_after_ms:
        trailers.append(("timerd-retry-after-ms", str(problem.retry_after_ms)))
    if problem.field:
        trailers.append(("timerd-field", problem.field))
    if problem.only_this_try:
        trailers.append(("timerd-only-this-try", "true"))
    return tuple(trailers)


async def abort(context: Context, problem: Problem) -> NoReturn:
    code = _BY_NUMBER[problem.code]
    try:
        await context.abort(code, problem.message, trailers_of(problem))
    except grpc.aio.InternalError as gone:
        # Its caller went while it was refused: gRPC cancels such a call no more, for it has a status already.
        raise asyncio.CancelledError from gone
    raise AssertionError("abort always raises")
