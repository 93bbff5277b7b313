"""What this worker has in hand: delivered, its handler not yet ended.

A hold is a range of one Deliver message, so that a batch of a thousand is one entry and its tokens one slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from timerd.sdk.values import DeliveredBatch, Delivery, InterruptReason, Progress
from timerd.v1 import work_service_pb2 as pb

DEFAULT_TOKEN_BYTES = 64


class Hold:
    """Deliveries that end together."""

    __slots__ = ("batch", "start", "stop")

    def __init__(self, batch: DeliveredBatch, start: int, stop: int) -> None:
        self.batch = batch
        self.start = start
        self.stop = stop

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def tokens(self) -> bytes:
        return self.batch.tokens(self.start, self.stop)

    def each_token(self) -> Iterator[bytes]:
        return (self.batch.tokens(index, index + 1) for index in range(self.start, self.stop))

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
        # What handlers have said of their progress.
        self._reports: dict[bytes, Progress] = {}

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
        self._reports[token] = progress

    def reports(self, tokens: bytes, token_bytes: int) -> list[pb.ProgressReport]:
        """Of these, what was said last."""
        if not self._reports:
            return []
        said = {token: self._reports.get(token) for token in split_tokens(tokens, token_bytes)}
        return [pb.ProgressReport(ack_token=token, progress=each.to_proto()) for token, each in said.items() if each]

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
