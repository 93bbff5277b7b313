"""Why a handler is to end before its work is done, and how it hears of that."""

from __future__ import annotations

import threading

from timerd.sdk.values.tasks import _WireEnum
from timerd.sdk.values.times import Span, span_ms


class InterruptReason(_WireEnum):
    """An interrupt reason says why the work on a delivery is for nothing.

    Attributes:
        UNSPECIFIED: a reason that only a later server knows.
        CANCELLED: the task was cancelled or purged while this worker had it.
        EXPIRED: the `expire_at` or `expire_after` of the task is over.
        LOST: the lease or the time of the attempt is over; another worker has the task, or will have it.
    """

    UNSPECIFIED = 0
    CANCELLED = 1
    EXPIRED = 2
    LOST = 3


class Interrupted(Exception):
    """A handler raises Interrupted where it ends early because its delivery was interrupted.

    A cancelled task ends as CANCELLED then, an expired one as EXPIRED, and of one that is lost nothing is said. A
    handler that was not interrupted fails by it, as by every other exception.

    Args:
        why: a text that is kept as the error of the attempt where the delivery was not interrupted. Default a sentence.
    """

    def __init__(self, why: str = "") -> None:
        super().__init__(why or "the handler has ended before its work was done")


class Interruption:
    """An interruption is an event that is set when the work on a delivery is for nothing: `delivery.interrupted`.

    Handlers do not make it. It may be looked at and waited for in any thread.
    """

    __slots__ = ("_event", "_reason")

    def __init__(self) -> None:
        self._event = threading.Event()
        self._reason = InterruptReason.UNSPECIFIED

    @property
    def reason(self) -> InterruptReason | None:
        """The reason is the first one that was heard; None: the delivery was not interrupted."""
        return self._reason if self._event.is_set() else None

    def is_set(self) -> bool:
        """Whether the delivery was interrupted."""
        return self._event.is_set()

    def __bool__(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout: Span | None = None) -> bool:
        """The call waits in a plain handler until the delivery is interrupted, and returns whether it is.

        Args:
            timeout: how long to wait at most, a timedelta or seconds. Default without an end.

        Raises:
            InvalidTask: `timeout` is no span of time.
        """
        return self._event.wait(None if timeout is None else span_ms(timeout, "timeout") / 1000)

    def check(self) -> None:
        """The call raises Interrupted where the delivery was interrupted: for the steps of a plain handler.

        Raises:
            Interrupted: it was.
        """
        if self._event.is_set():
            raise Interrupted

    def __repr__(self) -> str:
        return f"Interruption({self.reason})"

    def _set(self, reason: InterruptReason) -> bool:
        """Whether it was not before."""
        if self._event.is_set():
            return False
        self._reason = reason
        self._event.set()
        return True
