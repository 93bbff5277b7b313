"""What this worker has in hand: delivered, its handler not yet ended.

A hold is a range of one Deliver message, so that a batch of a thousand is one entry and its tokens one slice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from time import monotonic

from timerd.sdk.values import DeliveredBatch, Delivery, InterruptReason, Progress
from timerd.v1 import work_service_pb2 as pb

DEFAULT_TOKEN_BYTES = 64


class Hold:
    """Deliveries that end together. `heard_s`: when their handler has said something last, which is now as long as it
    has not begun."""

    __slots__ = ("batch", "heard_s", "start", "stop")

    def __init__(self, batch: DeliveredBatch, start: int, stop: int) -> None:
        self.batch = batch
        self.start = start
        self.stop = stop
        self.heard_s: Callable[[], float] = monotonic

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def tokens(self) -> bytes:
        return self.batch.tokens(self.start, self.stop)

    def each_token(self) -> Iterator[bytes]:
        return (self.batch.tokens(index, index + 1) for index in range(self.start, self.stop))

    def ends_s(self) -> float:
        """When their attempts are over."""
        batch = self.batch
        if not batch.deadlines_ms:
            return batch.attempt_ends_s
        return min(batch.attempt_ends_s, batch.deadline_s(self.start, self.stop))

    def begin(self, heard_s: Callable[[], float]) -> None:
        """Its handler runs."""
        self.heard_s = heard_s

    def end(self) -> None:
        """Its handler has ended."""
        self.heard_s = monotonic

    def stalls_s(self) -> list[float]:
        """For how long the handler of each may be silent."""
        stalls_s = self.batch.stalls_s
        return [inf] * len(self) if stalls_s is None else stalls_s[self.start : self.stop]

    def said_s(self) -> float:
        """When their handler has said something of its progress."""
        return self.batch.said_s(self.start, self.stop)

    def reasons(self) -> Iterator[InterruptReason | None]:
        """Why each of them was interrupted; None: it was not."""
        return map(self.batch.reason, range(self.start, self.stop))

    def interrupt(self, reason: InterruptReason) -> None:
        for index in range(self.start, self.stop):
            self.batch.interrupt(index, reason)

    def deliveries(self) -> list[Delivery]:
        batch = self.batch
        return [Delivery(batch, index) for index in range(self.start, self.stop)]


class InHand:
    """All holds of a worker, and the tokens among them that the server no longer counts as this worker's."""

    def __init__(self) -> None:
        self._holds: set[Hold] = set()
        self.lost: set[bytes] = set()
        # What handlers have said of their progress last, and when.
        self._reports: dict[bytes, tuple[Progress, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._holds))

    def __bool__(self) -> bool:
        return bool(self._holds)

    def add(self, hold: Hold) -> None:
        self._holds.add(hold)

    def remove(self, hold: Hold) -> None:
        self._holds.discard(hold)
        if self.lost:
            self.lost.difference_update(hold.each_token())
        if self._reports:
            for token in hold.each_token():
                self._reports.pop(token, None)

    def report(self, token: bytes, progress: Progress) -> None:
        """From any thread."""
        self._reports[token] = (progress, monotonic())

    def report_of(self, token: bytes, age_s: float) -> pb.ProgressReport:
        """Its handler has said something so long ago, or has just begun."""
        progress, _ = self._reports.get(token, (None, 0.0))
        return _report(token, progress, age_s)

    def stalling(self) -> list[Hold]:
        """Those with handlers that may not be silent for ever."""
        return [hold for hold in self._holds if hold.batch.stalls_s is not None]

    def reports(self, tokens: bytes, token_bytes: int) -> list[pb.ProgressReport]:
        """Of these, what was said last."""
        if not self._reports:
            return []
        now_s = monotonic()
        said = {token: self._reports.get(token) for token in split_tokens(tokens, token_bytes)}
        return [_report(token, each[0], now_s - each[1]) for token, each in said.items() if each]

    def split(self, hold: Hold, size: int) -> Hold:
        """Takes the first `size` out of a hold, as one of their own."""
        taken = Hold(hold.batch, hold.start, hold.start + size)
        hold.start += size
        self._holds.add(taken)
        return taken

    def is_lost(self, hold: Hold) -> bool:
        """Whether nothing of it is this worker's any more."""
        return bool(self.lost) and all(token in self.lost for token in hold.each_token())

    def mark_lost(self, tokens: bytes, token_bytes: int) -> None:
        held = {token for hold in self._holds for token in hold.each_token()}
        self.lost.update(held.intersection(split_tokens(tokens, token_bytes)))

    def interrupt(self, tokens: bytes, token_bytes: int, reason: InterruptReason) -> bool:
        """Whether that is news of any of them."""
        named = frozenset(split_tokens(tokens, token_bytes))
        held = [
            (hold.batch, index)
            for hold in self._holds
            for index, token in enumerate(hold.each_token(), start=hold.start)
            if token in named
        ]
        news = [batch.interrupt(index, reason) for batch, index in held]
        return any(news)

    def tokens(self) -> bytes:
        """Of what is still this worker's."""
        if not self.lost:
            return b"".join(hold.tokens for hold in self._holds)
        return b"".join(token for hold in self._holds for token in hold.each_token() if token not in self.lost)


def split_tokens(tokens: bytes, token_bytes: int) -> Iterable[bytes]:
    return (tokens[start : start + token_bytes] for start in range(0, len(tokens), token_bytes))


def _report(token: bytes, progress: Progress | None, age_s: float) -> pb.ProgressReport:
    said = progress.to_proto() if progress is not None else None
    return pb.ProgressReport(ack_token=token, progress=said, age_ms=max(0, int(age_s * 1000)))
