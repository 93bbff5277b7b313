"""What waits to be written to one worker.

Credit bounds the tasks, this bounds the bytes: a worker that reads slowly costs a few megabytes and delays nobody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc.aio

from timerd.v1 import work_service_pb2 as pb

# A confirmation that is owed counts as so much, so that a worker cannot settle without reading the answers.
_OWED_BYTES = 256
_MERGE_S = 0.004
# A stream takes one write at a time. While so many messages wait for theirs, what falls due waits with the other tasks:
# it can still be cancelled or go to another worker, and leaves in one message with what falls due after it.
MOST_MESSAGES = 4
# Tasks of many queues share no messages, and to block a stream and let it go on again costs something for each of its
# queues: of so many one message more may wait.
QUEUES_A_MESSAGE = 8


class Forwarded(NamedTuple):
    """A WorkResponse of another instance, as it came; `written` is called when it has left."""

    response: bytes
    written: Callable[[int], None]


def encoded(response: pb.WorkResponse | Forwarded) -> bytes:
    return response.response if isinstance(response, Forwarded) else response.SerializeToString()


def most_messages(queues: int) -> int:
    """That may wait for a stream that serves so many."""
    return max(MOST_MESSAGES, queues // QUEUES_A_MESSAGE)


class WorkStream:
    """`limit_bytes` says how much may wait just now, `queues` how many the stream of that number serves; `on_room` is
    called when a full stream has room again."""

    def __init__(
        self,
        context: grpc.aio.ServicerContext[Any, Any],
        number: int,
        limit_bytes: Callable[[], int],
        on_room: Callable[[int], None],
        queues: Callable[[int], int] = lambda _: 1,
    ) -> None:
        self.number = number
        self._context = context
        self._limit_bytes = limit_bytes
        self._on_room = on_room
        self._queues = queues
        self._most_messages = MOST_MESSAGES
        self._waiting: deque[tuple[pb.WorkResponse | Forwarded, int]] = deque()
        self._queued_bytes = 0
        self._owed = 0
        # Sequences settled as a whole that are told together; None: the worker wants each on its own.
        self._plain: list[int] | None = None
        self._blocked = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self.closing = False
        self._is_broken_off = False

    def push(self, response: pb.WorkResponse | Forwarded, size_bytes: int = _OWED_BYTES) -> None:
        self._waiting.append((response, size_bytes))
        self._queued_bytes += size_bytes
        self._changed.set()

    def block_if_full(self) -> bool:
        """True once when the bound is passed; `on_room` follows."""
        if self._blocked:
            return False
        self._most_messages = most_messages(self._queues(self.number))
        self._blocked = self._queued_bytes >= self._limit_bytes() or len(self._waiting) >= self._most_messages
        return self._blocked

    def owe(self) -> None:
        """A settle was read: its confirmation will come."""
        self._owed += 1

    def disown(self) -> None:
        """Not yet: the settle is taken up again."""
        self._owed -= 1

    def merge_confirmed(self) -> None:
        """From here on, what was settled within a few milliseconds is confirmed in one message."""
        self._plain = []

    def confirm(self, confirmed: pb.SettleConfirmed) -> None:
        if self._plain is not None and not confirmed.HasField("problem"):
            self._plain.append(confirmed.sequence)
            if len(self._plain) == 1:
                asyncio.get_running_loop().call_later(_MERGE_S, self._confirm_plain)
            return
        self._owed -= 1
        self.push(pb.WorkResponse(confirmed=confirmed), _OWED_BYTES + 8 * len(confirmed.refused))

    def _confirm_plain(self) -> None:
        sequences, self._plain = self._plain or [], []
        self._owed -= len(sequences)
        confirmed = pb.SettleConfirmed(sequence=sequences[0], also=sequences[1:])
        self.push(pb.WorkResponse(confirmed=confirmed), _OWED_BYTES + 4 * len(sequences))

    async def room(self) -> None:
        """Until there is room for what the next request may bring."""
        while self._queued_bytes + self._owed * _OWED_BYTES >= self._limit_bytes():
            self._room.clear()
            await self._room.wait()

    def close(self) -> None:
        """The worker sends no more: `write_all` ends when everything owed is written."""
        self.closing = True
        self._changed.set()

    def break_off(self) -> None:
        """The stream is refused: what is being written is the last."""
        self._is_broken_off = True
        self._changed.set()

    async def write_all(self) -> None:
        """The one writer: a stream takes one write at a time."""
        while not self._is_broken_off and (self._waiting or self._owed or not self.closing):
            if not self._waiting:
                self._changed.clear()
                await self._changed.wait()
                continue
            response, size_bytes = self._waiting.popleft()
            await self._context.write(response)
            self._queued_bytes -= size_bytes
            self._room.set()
            if isinstance(response, Forwarded):
                response.written(size_bytes)
            few = len(self._waiting) <= self._most_messages // 2
            if self._blocked and few and self._queued_bytes < self._limit_bytes() // 2:
                self._blocked = False
                self._on_room(self.number)
