"""When the driver may send a request again by itself: reads, once, to another node. Writes never.

The driver's own default repeats writes and transactions on the next node; a transaction that is sent twice can report a
loss to whom it made the winner. Without repeats, "no node could be asked" also means that nothing was sent. The
policies are used by their methods alone, so they need no base class.
"""

from __future__ import annotations

from cassandra.policies import RetryPolicy

Decision = tuple[int, int | None]


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
