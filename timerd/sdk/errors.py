"""Errors of the SDK: what a caller may conclude from each.

The server says two things with an error: which kind it is (the gRPC code) and, where nothing was stored, a reason. An
error without a reason leaves the outcome unknown, and a repeat with the same request_id is safe after either (G2).
"""

from __future__ import annotations

from typing import ClassVar, Self

import grpc

from timerd.v1 import task_pb2

# Codes that, without a reason, say only that the answer got lost.
_LOST_ANSWER = frozenset({"UNKNOWN", "INTERNAL", "ABORTED", "CANCELLED", "DEADLINE_EXCEEDED"})
# A new stream would be refused in the same way.
_HOPELESS = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED", "INVALID_ARGUMENT", "NOT_FOUND"})
# gRPC's words for a call that found no connection to go out on.
_NEVER_CONNECTED = "failed to connect to all addresses"
# How gRPC says that one side speaks TLS and the other does not.
_TLS_HINTS = {
    "Socket closed": "If the server uses TLS, name its certificate with `ca_file` (--tls-ca).",
    "WRONG_VERSION_NUMBER": "If the server uses no TLS, leave out `tls` and `ca_file` (--tls-ca).",
}
_NO_ACCESS = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED"})
# Our own reason: the request did not leave this process.
NOT_SENT = "NOT_SENT"
CLOSED = "CLOSED"
_CODE_NAMES = {status.value[0]: status.name for status in grpc.StatusCode}


class TimerdError(Exception):
    """Says in a sentence what was wrong, what is allowed and what to do."""

    code: str = "UNKNOWN"

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        reason: str = "",
        retry_after: float | None = None,
        field: str = "",
    ) -> None:
        super().__init__(message)
        # Name of the gRPC status code.
        self.code = code or type(self).code
        # UPPER_SNAKE; empty = the outcome is unknown.
        self.reason = reason
        # Seconds, where the server advises a wait.
        self.retry_after = retry_after
        # The field of the request that was wrong.
        self.field = field
        # Which of many items was wrong, from 0 on.
        self.item: int | None = None

    def of_item(self, index: int) -> Self:
        """The same error, which says where it was met."""
        said = type(self)(
            f"Item {index}: {self}", code=self.code, reason=self.reason, retry_after=self.retry_after, field=self.field
        )
        said.item = index
        return said


class InvalidTask(TimerdError, ValueError):
    """The request breaks a rule; repeating it does not help."""

    code = "INVALID_ARGUMENT"


class NotFound(TimerdError, LookupError):
    """There is no such task."""

    code = "NOT_FOUND"


class AlreadyExists(TimerdError):
    """The key is in use and the policy is to reject."""

    code = "ALREADY_EXISTS"


class FailedPrecondition(TimerdError):
    """The task has fired, ended or was cancelled."""

    code = "FAILED_PRECONDITION"


class Aborted(TimerdError):
    """Another call won; trying again may succeed."""

    code = "ABORTED"


class Unavailable(TimerdError):
    """The server cannot be reached, or cannot take anything in now."""

    code = "UNAVAILABLE"


class Overloaded(TimerdError):
    """The server refused before storing anything because it has too much in hand."""

    code = "RESOURCE_EXHAUSTED"


class AccessDenied(TimerdError):
    """The credentials are missing or do not allow it."""

    code = "PERMISSION_DENIED"


class OutcomeUnknown(TimerdError):
    """It may or may not have happened. Repeating it with the same request_id is safe."""

    code = "DEADLINE_EXCEEDED"


_CLASS_OF_CODE: dict[str, type[TimerdError]] = {
    "INVALID_ARGUMENT": InvalidTask,
    "OUT_OF_RANGE": InvalidTask,
    "NOT_FOUND": NotFound,
    "ALREADY_EXISTS": AlreadyExists,
    "FAILED_PRECONDITION": FailedPrecondition,
    "ABORTED": Aborted,
    "UNAVAILABLE": Unavailable,
    "RESOURCE_EXHAUSTED": Overloaded,
    "UNAUTHENTICATED": AccessDenied,
    "PERMISSION_DENIED": AccessDenied,
}


class MetadataKey:
    """Trailing metadata of a failed unary call: the parts of the status that need no further library."""

    REASON: ClassVar[str] = "timerd-reason"
    RETRY_AFTER_MS: ClassVar[str] = "timerd-retry-after-ms"
    FIELD: ClassVar[str] = "timerd-field"


def make_error(code: str, message: str, reason: str, retry_after_ms: int, field: str) -> TimerdError:
    kind = _CLASS_OF_CODE.get(code, TimerdError)
    retry_after = retry_after_ms / 1000 if retry_after_ms else None
    return kind(message or code, code=code, reason=reason, retry_after=retry_after, field=field)


def code_name(number: int) -> str:
    """Of a gRPC status."""
    return _CODE_NAMES.get(number, "UNKNOWN")


def error_of_problem(problem: task_pb2.Problem) -> TimerdError:
    return make_error(code_name(problem.code), problem.message, problem.reason, problem.retry_after_ms, problem.field)


def error_of_rpc(error: grpc.aio.AioRpcError) -> TimerdError:
    trailing = {key.lower(): value for key, value in error.trailing_metadata() or ()}
    retry_after_ms, details = _text(trailing.get(MetadataKey.RETRY_AFTER_MS)), error.details() or ""
    never_left = NOT_SENT if details.startswith(_NEVER_CONNECTED) else ""
    hints = [f". {hint}" for sign, hint in _TLS_HINTS.items() if never_left and sign in details]
    return make_error(
        error.code().name,
        details + "".join(hints),
        _text(trailing.get(MetadataKey.REASON)) or never_left,
        int(retry_after_ms) if retry_after_ms.isdigit() else 0,
        _text(trailing.get(MetadataKey.FIELD)),
    )


def is_retryable(error: TimerdError) -> bool:
    """Whether the same bytes may succeed a little later."""
    if error.code == "UNAVAILABLE":
        return True
    if error.code == "RESOURCE_EXHAUSTED":
        return error.retry_after is not None
    return not error.reason and error.code in _LOST_ANSWER


def is_hopeless(error: TimerdError, *, was_open: bool) -> bool:
    """Whether a stream that ended so would end so again. One that was open may have been so by a token that has been
    renewed since; the next one shows the new token."""
    return error.code in _HOPELESS and not (was_open and error.code in _NO_ACCESS)


def timed_out(last: TimerdError | None, uncertain: bool, timeout_s: float, target: str) -> TimerdError:
    """The error that ends the repeats: says whether anything may have been stored."""
    said = f" The last answer was: {last}" if last else ""
    if uncertain:
        return OutcomeUnknown(
            f"timerd at {target} did not answer within {timeout_s:g} s: the outcome is unknown. "
            f"Repeating the call with the same request_id (or the same key) is safe.{said}"
        )
    if last is not None and last.reason not in ("", NOT_SENT):
        return last
    return Unavailable(
        f"timerd at {target} could not be reached within {timeout_s:g} s; nothing was sent. "
        f"Check the address and that the server runs.{said}",
        reason=NOT_SENT,
    )


def refused(ended: TimerdError, uncertain: bool) -> TimerdError:
    """For calls whose stream is refused for good. That says nothing of a stream before it."""
    if not uncertain:
        return ended
    return OutcomeUnknown(
        "The stream ended before the answer came, and no other is to be had: the outcome is unknown. Repeating the "
        f"call with the same request_id (or the same key) is safe. The server said: {ended}",
        code=ended.code,
    )


def closed(uncertain: bool) -> TimerdError:
    """For calls that the end of their client cuts short."""
    if uncertain:
        return OutcomeUnknown("The client was closed before the answer came: the outcome is unknown.", code="CANCELLED")
    return TimerdError("The client was closed; nothing was sent.", code="CANCELLED", reason=NOT_SENT)


def client_is_closed() -> TimerdError:
    return TimerdError("This client is closed; make a new one.", code="FAILED_PRECONDITION", reason=CLOSED)


def client_is_forked() -> TimerdError:
    sentence = (
        "This client was made before its process was forked, and has no loop here: make a new one after the fork."
    )
    return TimerdError(sentence, code="FAILED_PRECONDITION", reason=CLOSED)


def not_sendable(wrong: Exception) -> InvalidTask:
    """A value of the wrong type or out of its range, as protobuf says it."""
    return InvalidTask(f"The request cannot be sent: {wrong}.", reason="INVALID")


def _text(value: str | bytes | None) -> str:
    if value is None:
        return ""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
