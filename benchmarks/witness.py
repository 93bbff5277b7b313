"""The worker of the recovery: it also notes what came and which acks were confirmed, and may kill the server itself.

The SDK tells its user nothing of confirmations, so the noting is put between its stream and its settlements. In a burst
only the worker knows how far it is: whoever asked it would strike when the burst was over.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from itertools import accumulate, pairwise
from typing import Any
from unittest.mock import patch

from benchmarks.child import Answer, obey
from benchmarks.receiver import LOOK_EVERY_S, Receiver
from timerd import worker as sdk
from timerd.sdk.working import ACK, Settler, WorkStream, split_tokens
from timerd.v1 import work_service_pb2 as pb
from timerd.worker import Delivery, Worker


class Book:
    """Deliveries and confirmed acks in the order in which this process was told of them; reckoning comes afterwards."""

    def __init__(self, on_confirmed: Callable[[], None] = lambda: None) -> None:
        self._on_confirmed = on_confirmed
        self._events: list[pb.Deliver | list[bytes]] = []
        # Of each stream that was opened: how many tasks it began with that had no confirmed ack.
        self.resumed: list[int] = []
        self.confirmed = self.delivered = 0
        self.confirmed_at_ms = 0.0

    def deliver(self, message: pb.Deliver) -> None:
        self._events.append(message)
        self.delivered += len(message.fire_at_ms)

    def confirm(self, tokens: list[bytes]) -> None:
        self._events.append(tokens)
        self.confirmed += len(tokens)
        self.confirmed_at_ms = time.time_ns() / 1e6
        self._on_confirmed()

    def after_confirmed(self, confirmed_below: int = 0) -> set[int]:
        """The tasks that came although their ack was confirmed before. `confirmed_below`: those with a smaller number
        had been, to another worker."""
        numbers: dict[bytes, int] = {}
        confirmed, came = set(range(confirmed_below)), set[int]()
        for event in self._events:
            if isinstance(event, list):
                confirmed.update(numbers[token] for token in event)
            else:
                new = dict(_numbered(event))
                numbers |= new
                came |= confirmed.intersection(new.values())
        return came


def _numbered(message: pb.Deliver) -> list[tuple[bytes, int]]:
    """(ack token, number of the task)."""
    count, lengths = len(message.fire_at_ms), list(message.payload_lengths)
    ends = accumulate(lengths * count if len(lengths) == 1 else lengths, initial=0)
    numbers = [int.from_bytes(message.payloads[start : start + 8]) for start, _ in pairwise(ends)]
    return list(zip(split_tokens(message.ack_tokens, len(message.ack_tokens) // count), numbers, strict=True))


class NotedSettler(Settler):
    """Tells the book which acks are confirmed."""

    def __init__(self, book: Book) -> None:
        super().__init__()
        self._book = book

    def confirm(self, confirmed: pb.SettleConfirmed) -> bool:
        tokens = [token for sequence in confirmed.also for token in self._acked(sequence)]
        own, refused = self._acked(confirmed.sequence), set(confirmed.refused)
        if not confirmed.HasField("problem") or refused:
            tokens += [token for index, token in enumerate(own) if index not in refused]
        if tokens:
            self._book.confirm(tokens)
        return super().confirm(confirmed)

    def _acked(self, sequence: int) -> list[bytes]:
        sent = self._unconfirmed.get(sequence)
        return list(split_tokens(sent.tokens, self.token_bytes)) if sent and sent.disposition == ACK else []


class NotedStream(WorkStream):
    """Tells the book what comes, and what each new stream begins with."""

    def __init__(self, book: Book, *given: Any) -> None:  # noqa: ANN401 - whatever a stream takes
        super().__init__(*given)
        self._book = book
        self._settler = NotedSettler(book)

    def _on_deliver(self, message: pb.Deliver) -> None:
        self._book.deliver(message)
        super()._on_deliver(message)

    def _open_message(self) -> bytes:
        message = super()._open_message()
        resume = pb.WorkRequest.FromString(message).open.resume
        self._book.resumed.append(len(resume) // self._settler.token_bytes)
        return message


class Witness(Receiver):
    """A worker on one queue. Its handlers end when they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self._book = Book(self._strike)
        self._victim = self._after = self._latest = 0
        self._struck: Answer = {}

    async def in_batches(self, target: str, queue: str, size: int) -> Answer:
        """Its handler takes batches of at most that size."""
        return await self._start(target, lambda worker: worker.on_batch(queue, max_size=size)(self._strike_or_note))

    async def one_by_one(self, target: str, queue: str, at_once: int) -> Answer:
        """So many in hand, until `let_go`."""
        return await self._start(target, lambda worker: worker.on(queue, concurrency=at_once)(self._hold))

    async def _start(self, target: str, register: Callable[[Worker], object]) -> Answer:
        stream: Any = partial(NotedStream, self._book)
        patch.object(sdk, "WorkStream", stream).start()
        worker = Worker(target)
        register(worker)
        self._run(worker)
        return {}

    async def arm(self, pid: int, after: int, latest: int) -> Answer:
        """To kill that process when so many have been received, at the moment when acks are confirmed: if their commit
        were not durable yet, they would come again. When `latest` have been received it does not wait for that."""
        self._victim, self._after, self._latest = pid, after, latest
        return {}

    async def _strike_or_note(self, deliveries: list[Delivery]) -> None:
        await self._on_batch(deliveries)
        if self._received >= self._latest:
            self._strike()

    def _strike(self) -> None:
        if self._victim and self._received >= self._after:
            os.kill(self._victim, signal.SIGKILL)
            self._victim = 0
            self._struck = {"at_ms": time.time_ns() / 1e6, "received": self._received, **self._counted()}

    def _counted(self) -> Answer:
        return {"delivered": self._book.delivered, "confirmed": self._book.confirmed}

    async def struck(self, patience_s: float) -> Answer:
        """How things were at the strike."""
        await self._until(lambda: bool(self._struck), patience_s)
        return self._struck

    async def let_go(self) -> Answer:
        """Handlers end, those that are to come as well."""
        self._gate.set()
        return {}

    async def hold(self) -> Answer:
        """What comes from now on is kept in hand."""
        self._gate.clear()
        return {}

    async def confirmed(self, count: int, patience_s: float) -> Answer:
        """When so many acks are confirmed, and when that was."""
        await self._until(lambda: self._book.confirmed >= count, patience_s)
        return {"at_ms": self._book.confirmed_at_ms, **self._counted()}

    async def told(self, confirmed_below: int = 0) -> Answer:
        """`resumed`: what each stream began with. `after_confirmed`: how many tasks came after their confirmed ack,
        which for those with a smaller number than that another worker was told."""
        after = len(self._book.after_confirmed(confirmed_below))
        return {"resumed": self._book.resumed, "after_confirmed": after, **self._counted()}

    async def _until(self, reached: Callable[[], bool], patience_s: float) -> None:
        end_s = time.monotonic() + patience_s
        while not reached():
            if time.monotonic() > end_s:
                return
            await asyncio.sleep(LOOK_EVERY_S)


async def main() -> None:
    witness = Witness()
    own = ("in_batches", "one_by_one", "arm", "struck", "let_go", "hold", "confirmed", "told")
    verbs = ("ready", "stop", "came", "collect", *own)
    await obey({verb: getattr(witness, verb) for verb in verbs})


if __name__ == "__main__":
    asyncio.run(main())
