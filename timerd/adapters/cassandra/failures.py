"""What a failure lets a caller conclude: nothing was written, or it is unknown (guarantee G2). And when the driver may
send a request again by itself: reads, once, to another node. Writes never.

The driver's own default repeats writes and transactions on the next node; a transaction that is sent twice can report a
loss to whom it made the winner. Without repeats, "no node could be asked" also means that nothing was sent. The
policies are used by their methods alone, so they inherit from none of the driver's.
"""

from __future__ import annotations

from collections.abc import Sequence

from cassandra import RequestValidationException, Unavailable
from cassandra.cluster import NoHostAvailable
from cassandra.connection import ConnectionBusy
from cassandra.policies import RetryPolicy
from cassandra.protocol import ErrorMessage

from timerd.model.errors import StoreUnavailable, StoreUnknown, TimerdError

# The coordinator, or this process, refused before any replica was asked to write.
_NOT_SENT = (Unavailable, NoHostAvailable, RequestValidationException)
# Replicas did not agree in time whether a transaction has happened. The driver has no class for it, and asks no policy.
_CAS_UNKNOWN = 0x1700
RETRY_AFTER_MS = 1_000
Decision = tuple[int, int | None]


def is_undecided(error: Exception) -> bool:
    """Of a serial read: it met a transaction that others are at, and may be asked once more."""
    return isinstance(error, ErrorMessage) and error.code == _CAS_UNKNOWN


def is_crowded(error: Exception) -> bool:
    """No socket takes anything for the moment, for large messages are on their way: nothing was sent to any node."""
    return (
        isinstance(error, NoHostAvailable)
        and bool(error.errors)
        and all(isinstance(each, ConnectionBusy) for each in error.errors.values())
    )


def read_failure(error: Exception) -> TimerdError:
    if isinstance(error, TimerdError):
        return error
    return StoreUnavailable(
        f"The store could not read ({_words(error)}). Repeat the call.",
        "STORE_UNAVAILABLE",
        retry_after_ms=RETRY_AFTER_MS,
    )


def write_failure(error: Exception) -> TimerdError:
    if isinstance(error, TimerdError):
        return error
    if isinstance(error, _NOT_SENT):
        return StoreUnavailable(
            f"The store could not write ({_words(error)}); nothing was stored. Look at the health of its nodes.",
            "STORE_UNAVAILABLE",
            retry_after_ms=RETRY_AFTER_MS,
        )
    return StoreUnknown(f"The store did not say whether it wrote ({_words(error)}). Repeat the call.")


def joined(errors: Sequence[BaseException], wrote_some: bool) -> BaseException:
    """Of several parts of one piece of work: nothing was written only where that is so of all parts."""
    if not wrote_some and all(isinstance(error, StoreUnavailable) for error in errors):
        return errors[0]
    other = next((e for e in errors if not isinstance(e, StoreUnavailable | StoreUnknown)), None)
    if other is not None:
        return other
    return StoreUnknown(f"The store did not say whether it wrote all of it ({errors[0]}).")


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


class RetryOnce:
    """Another node may know more; the time limit of the request covers both."""

    def __init__(self, most: int = 1) -> None:
        self._most = most

    def on_read_timeout(self, *_: object, retry_num: int, **__: object) -> Decision:
        return self._decide(retry_num)

    def on_write_timeout(self, *_: object, retry_num: int, **__: object) -> Decision:
        return self._decide(retry_num)

    def on_unavailable(self, *_: object, retry_num: int, **__: object) -> Decision:
        return self._decide(retry_num)

    def on_request_error(self, *_: object, retry_num: int, **__: object) -> Decision:
        return self._decide(retry_num)

    def _decide(self, retried: int) -> Decision:
        return RetryPolicy.RETHROW if retried >= self._most else RetryPolicy.RETRY_NEXT_HOST, None


class NoRetry(RetryOnce):
    """Every failure is told to who asked."""

    def __init__(self) -> None:
        super().__init__(0)
