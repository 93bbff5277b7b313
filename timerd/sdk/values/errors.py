"""Errors of the SDK: what a caller may conclude from each.

The server says two things with an error: which kind it is (the gRPC code) and, where nothing was stored, a reason. An
error without a reason leaves the outcome unknown, and a repeat with the same request_id is safe after either (G2).
"""

from __future__ import annotations

from typing import ClassVar, Self

import grpc

from timerd.v1 import task_pb2

# What users catch. The rest of this module makes them.
__all__ = [
    "Aborted",
    "AccessDenied",
    "AlreadyExists",
    "FailedPrecondition",
    "InvalidTask",
    "NotFound",
    "OutcomeUnknown",
    "Overloaded",
    "TimerdError",
    "Unavailable",
]

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
    """An error of timerd says in a sentence what was wrong, what is allowed and what to do.

    Its subclasses say what a caller may conclude. An error with a `reason` says that nothing was stored; one of the
    server without a reason leaves the outcome unknown.

    Args:
        message: the sentence.
        code: the name of the gRPC status code. Default that of the class.
        reason: the reason in UPPER_SNAKE, for programs to tell errors apart. Default empty.
        retry_after: seconds, where the server advises to wait before the next try. Default None.
        field: the argument or the field of the request that was wrong. Default empty.
        only_this_try: whether the refusal speaks of the last try alone: nothing of that one was stored, and what became
            of earlier tries without an answer was not looked at. Default no.

    Beside these an error has `item`: which of many items was wrong, from 0 on, or None.
    """

    code: str = "UNKNOWN"

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        reason: str = "",
        retry_after: float | None = None,
        field: str = "",
        only_this_try: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code or type(self).code
        self.reason = reason
        self.retry_after = retry_after
        self.field = field
        self.only_this_try = only_this_try
        self.item: int | None = None

    def of_item(self, index: int) -> Self:
        """The new error says the same of the item at `index`, which is counted from 0 on."""
        said = type(self)(
            f"Item {index}: {self}", code=self.code, reason=self.reason, retry_after=self.retry_after, field=self.field
        )
        said.item = index
        return said


class InvalidTask(TimerdError, ValueError):
    """This error says that the request breaks a rule; nothing was stored, and repeating it does not help."""

    code = "INVALID_ARGUMENT"


class NotFound(TimerdError, LookupError):
    """This error says that the namespace has no such task."""

    code = "NOT_FOUND"


class AlreadyExists(TimerdError):
    """This error says that another task has the key and the policy is `REJECT`; nothing was stored."""

    code = "ALREADY_EXISTS"


class FailedPrecondition(TimerdError):
    """This error says that the task's state forbids the call; nothing changed.

    The task has fired, ended or was cancelled, or would not be delivered at the new time: see the reason.
    """

    code = "FAILED_PRECONDITION"


class Aborted(TimerdError):
    """This error says that another call won; nothing was stored, and trying again may succeed."""

    code = "ABORTED"


class CallFailed(TimerdError):
    """This error says that the task of a `call` ended without being acknowledged; its text is the last error.

    Each attempt failed, a handler rejected the task, or somebody cancelled or purged it.
    """

    code = "ABORTED"


class CallExpired(TimerdError, TimeoutError):
    """This error says that no handler has acknowledged the task of a `call` within its `timeout`.

    No attempt begins any more. One that is under way may still end, and is not told to the caller.
    """

    code = "DEADLINE_EXCEEDED"


class Unavailable(TimerdError):
    """This error says that no server was reached, or that it can take nothing in now; nothing was stored.

    A call that only reads raises it, too, where the server does not answer in time.
    """

    code = "UNAVAILABLE"


class Overloaded(TimerdError):
    """This error says that the server has too much in hand, or that a namespace is over its quota.

    Nothing was stored, and `retry_after` says when to try again.
    """

    code = "RESOURCE_EXHAUSTED"


class AccessDenied(TimerdError):
    """This error says that the credentials are missing, or do not allow the call; nothing was stored."""

    code = "PERMISSION_DENIED"


class OutcomeUnknown(TimerdError):
    """This error says that the call may or may not have happened.

    Repeating it with the same `request_id`, and the same arguments, is safe for 24 h.
    """

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
    ONLY_THIS_TRY: ClassVar[str] = "timerd-only-this-try"


def make_error(
    code: str, message: str, reason: str, retry_after_ms: int, field: str, only_this_try: bool = False
) -> TimerdError:
    kind = _CLASS_OF_CODE.get(code, TimerdError)
    wait_s = retry_after_ms / 1000 if retry_after_ms else None
    said = message or code
    return kind(said, code=code, reason=reason, retry_after=wait_s, field=field, only_this_try=only_this_try)


def code_name(number: int) -> str:
    """Of a gRPC status."""
    return _CODE_NAMES.get(number, "UNKNOWN")


def error_of_problem(problem: task_pb2.Problem) -> TimerdError:
    code, wait_ms = code_name(problem.code), problem.retry_after_ms
    return make_error(code, problem.message, problem.reason, wait_ms, problem.field, problem.only_this_try)


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
        MetadataKey.ONLY_THIS_TRY in trailing,
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


def final(refusal: TimerdError, uncertain: bool) -> TimerdError:
    """For a call that is not repeated any more. `uncertain`: an earlier try of it was not answered."""
    if not (uncertain and refusal.only_this_try):
        return refusal
    return OutcomeUnknown(
        "An earlier try of the call was not answered, and the last one was refused before anybody looked what became "
        f"of that: the outcome is unknown. The server said: {refusal}",
        code=refusal.code,
    )


def unanswered(last: TimerdError | None, was_asked: bool, timeout_s: float, target: str) -> TimerdError:
    """As `timed_out`, of a call that only reads."""
    if not was_asked:
        return timed_out(last, False, timeout_s, target)
    said = f" The last answer was: {last}" if last else ""
    return Unavailable(
        f"timerd at {target} did not answer within {timeout_s:g} s. The call only reads: ask again, or give it more "
        f"time by `timeout`.{said}"
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


def closed(uncertain: bool, *, was_sent: bool = False) -> TimerdError:
    """For calls that the end of their client cuts short. `was_sent`: also where nothing is uncertain, for it reads."""
    if uncertain:
        return OutcomeUnknown("The client was closed before the answer came: the outcome is unknown.", code="CANCELLED")
    if was_sent:
        return TimerdError("The client was closed before the answer came.", code="CANCELLED", reason=CLOSED)
    return TimerdError("The client was closed; nothing was sent.", code="CANCELLED", reason=NOT_SENT)


def client_is_closed() -> TimerdError:
    return TimerdError("This client is closed; make a new one.", code="FAILED_PRECONDITION", reason=CLOSED)


def not_sendable(wrong: Exception) -> InvalidTask:
    """A value of the wrong type or out of its range, as protobuf says it."""
    return InvalidTask(f"The request cannot be sent: {wrong}.", reason="INVALID")


def _text(value: str | bytes | None) -> str:
    if value is None:
        return ""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
