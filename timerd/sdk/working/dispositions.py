"""How a handler's end becomes the end of its delivery.

Returning acknowledges. Raising fails the attempt, and the trace travels with it, so that a dead letter explains itself.
"""

from __future__ import annotations

import traceback
from datetime import timedelta
from typing import NamedTuple

from timerd.sdk.values import (
    LONGEST_WIRE_SPAN,
    Delivery,
    InvalidResult,
    Span,
    TaskResult,
    check_one_held,
    invalid,
    name,
    span_ms,
    text,
)
from timerd.v1 import work_service_pb2 as pb

MAX_ERROR_BYTES = 16 * 1024
_ANOTHER_ATTEMPT = "the handler asked for another attempt"
_THROTTLED = "what the handler has asked told it to wait"
_LONGEST_AFTER_MS = 3_600_000


class Reject(Exception):
    """A handler raises Reject where trying again is hopeless: the task becomes a dead letter at once.

    Its text is kept as the error of the dead letter, at most its last 16 KiB.
    """


class Retry(Exception):
    """A handler raises Retry to be given the task again; the attempt counts as a failed one.

    Args:
        delay: the time until the next attempt, a timedelta or seconds, at most 49 days. Default as the task's retry
            policy says.
        why: a text that is kept as the error of the attempt. Default a sentence that says who asked for it.

    Raises:
        InvalidTask: `delay` is no span of time, or longer than 49 days.
    """

    # Also of a subclass that does not call this __init__.
    delay_ms: int | None = None

    def __init__(self, delay: Span | None = None, why: str = "") -> None:
        super().__init__(why or _ANOTHER_ATTEMPT)
        if delay is not None:
            self.delay_ms = span_ms(delay, most=LONGEST_WIRE_SPAN)


class Throttled(Exception):
    """A handler raises Throttled where it was told to wait by what it has asked, as by HTTP 429.

    The task goes back, and this attempt does not count. Nothing of its queue starts before `after` is over: or, with
    the name of a limit, nothing of all queues that list it. So one answer of 429 holds the limit, not one task. Where
    it is one customer who was told to wait, `by_key` holds the tasks of the queue with the limit key of this one.

    Args:
        after: for how long nothing starts, a timedelta or seconds: a millisecond to an hour.
        limit: the name of a limit that the queue lists (`client.limits`); of a keyed one what has the `limit_key` of
            the task is held, in all queues that list it. Default the queue itself, whether it has a limit or not.
        why: a text for those who read the traces of the handler. Default a sentence.
        by_key: nothing of the task's `limit_key` starts, and the queue goes on with the others. Default not.

    Raises:
        InvalidTask: `after` is no span of time, or not within a millisecond and an hour; `limit` is no name; or there
            are both `limit` and `by_key`.
    """

    # Also of a subclass that does not call this __init__.
    after_ms: int = 1_000
    limit: str = ""
    by_key: bool = False

    def __init__(self, after: Span, limit: str = "", why: str = "", *, by_key: bool = False) -> None:
        super().__init__(why or _THROTTLED)
        self.after_ms = _after_ms(after)
        self.limit = name(limit, "limit") if limit else ""
        self.by_key = by_key
        check_one_held(self.limit, by_key=by_key)


class Disposition(NamedTuple):
    """What the worker says of a delivery. Equal ones travel in one message. `throttled`: the name of the limit, empty
    for that of the queue; None: it was not. `throttled_key`: it is the limit key of the task."""

    action: pb.SettleAction
    delay_ms: int | None = None
    error: str = ""
    throttled: str | None = None
    throttled_key: bool = False
    # Of an acknowledgement, and for how long it is kept.
    result: TaskResult | None = None
    keep_result_ms: int | None = None


class FailedElsewhere(Exception):
    """A handler has failed in a process of its own. `disposition` says how, and has the trace from there.

    Args:
        disposition: what is said of the delivery.
        is_asked_for: the handler has raised Reject, Retry or Throttled.
    """

    def __init__(self, disposition: Disposition, is_asked_for: bool = False) -> None:
        super().__init__(disposition, is_asked_for)
        self.disposition = disposition
        self.is_asked_for = is_asked_for

    @classmethod
    def of(cls, raised: BaseException | type[BaseException]) -> FailedElsewhere:
        kind = raised if isinstance(raised, type) else type(raised)
        return cls(disposition_of(raised), issubclass(kind, ASKED_FOR))

    def __str__(self) -> str:
        return self.disposition.error


# A handler chooses these; they are no failures of it.
ASKED_FOR = (Reject, Retry, Throttled)
ACK = Disposition(pb.SETTLE_ACTION_ACK)
# Not begun: somebody else gets it at once, and the attempt does not count.
RELEASE = Disposition(pb.SETTLE_ACTION_RELEASE)


def acknowledged(delivery: Delivery, returned: object) -> Disposition:
    """With what the handler has returned, where somebody may ask for it. Raises InvalidResult."""
    kept_for, result = delivery.keep_result, result_of(delivery, returned)
    if result is None or kept_for is None:
        return ACK
    return ACK._replace(result=result, keep_result_ms=kept_for // timedelta(milliseconds=1))


def result_of(delivery: Delivery, returned: object) -> TaskResult | None:
    """None: nobody may ask for it, or there is nothing. Raises InvalidResult."""
    return None if returned is None or delivery.keep_result is None else TaskResult.of(returned)


def disposition_of(raised: BaseException | type[BaseException]) -> Disposition:
    """Whatever it is: what is not told to the server would leave the task to its lease, without its error."""
    try:
        return _disposition_of(raised() if isinstance(raised, type) else raised)
    except Exception as wrong:  # noqa: BLE001 - what is wrong with it is told in its place
        return _failure(wrong)


def _disposition_of(raised: BaseException) -> Disposition:
    if isinstance(raised, FailedElsewhere):
        return raised.disposition
    if isinstance(raised, Reject):
        return Disposition(pb.SETTLE_ACTION_REJECT, None, clip(str(raised) or "rejected by the handler"))
    if isinstance(raised, InvalidResult):
        # What it was to do is done: another attempt would do it again, and for nothing.
        return Disposition(pb.SETTLE_ACTION_REJECT, None, clip(str(raised)))
    if isinstance(raised, Retry):
        delay_ms = raised.delay_ms
        if delay_ms is not None:
            # A subclass sets what it likes.
            delay_ms = span_ms(timedelta(milliseconds=delay_ms), "delay_ms", most=LONGEST_WIRE_SPAN)
        return Disposition(pb.SETTLE_ACTION_NACK, delay_ms, clip(str(raised) or _ANOTHER_ATTEMPT))
    if isinstance(raised, Throttled):
        # The delay is for a server that does not know limits which are held.
        after_ms, held = _after_ms(timedelta(milliseconds=raised.after_ms)), _held(raised)
        return Disposition(pb.SETTLE_ACTION_NACK, after_ms, clip(str(raised) or _THROTTLED), *held)
    return _failure(raised)


def _held(raised: Throttled) -> tuple[str, bool]:
    """What a subclass has set is looked at here: it would stop the whole stream."""
    limit = text(raised.limit, "limit")
    check_one_held(limit, by_key=raised.by_key)
    return limit, raised.by_key


def _after_ms(after: Span) -> int:
    after_ms = span_ms(after, "after", may_be_none=False)
    if after_ms > _LONGEST_AFTER_MS:
        raise invalid(f"`after` is {after!r}: give an hour at most: it can be said again.", "after")
    return after_ms


def _failure(raised: BaseException) -> Disposition:
    return Disposition(pb.SETTLE_ACTION_NACK, None, clip("".join(traceback.format_exception(raised))))


def clip(text: str) -> str:
    """The end of a trace says more than its beginning. What cannot be written as UTF-8 would stop the whole stream."""
    return text.encode(errors="backslashreplace")[-MAX_ERROR_BYTES:].decode(errors="ignore")
