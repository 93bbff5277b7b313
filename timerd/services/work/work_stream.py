"""What waits to be written to one worker.

Credit bounds the tasks, this bounds the bytes: a worker that reads slowly costs a few megabytes and delays nobody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import grpc.aio

from timerd.core.dispatch import Assignment, InterruptReason
from timerd.services.dispatch.ports import Confirmation, Sent
from timerd.services.work.confirm_wire import confirmed_of
from timerd.services.work.deliver_wire import deliver_messages
from timerd.services.work.interrupt_wire import interrupt_message
from timerd.v1 import work_service_pb2 as pb

# A confirmation that is owed counts as so much, and each token that it is owed of, so that a worker cannot settle
# without reading the answers, nor say more than is looked for in a while.
_OWED_BYTES = 256
_TOKEN_BYTES = 256
_MERGE_S = 0.004
AWAY = pb.GoAway(reason="The server is going away: finish what is in hand, then connect again.")
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


class Flow(Protocol):
    """What a stream asks of dispatch about what may wait for it."""

    @property
    def secret(self) -> bytes:
        """What ids and tokens of deliveries are sealed with."""
        ...

    def next_number(self) -> int: ...

    def queue_count(self, number: int) -> int:
        """How many queues the stream of that number serves."""
        ...

    def stream_bytes(self) -> int:
        """How much may wait for a stream just now."""
        ...

    def room(self, number: int) -> None:
        """A stream that was full has room again."""
        ...


class WorkStream:
    """Implements services.dispatch.ports.Sink: deliveries and confirmations as messages of one Work stream."""

    counts_as_worker = True
    takes_backlog = True

    def __init__(self, context: grpc.aio.ServicerContext[Any, Any], flow: Flow) -> None:
        self.number = flow.next_number()
        # It has said so before anything else.
        self.namespace = ""
        self._context = context
        self._flow = flow
        self._most_messages = MOST_MESSAGES
        self._waiting: deque[tuple[pb.WorkResponse | Forwarded, int]] = deque()
        self._queued_bytes = 0
        self._owed = self._owed_tokens = 0
        # Sequences settled as a whole that are told together; None: the worker wants each on its own.
        self._plain: list[tuple[int, int]] | None = None
        self._blocked = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self.closing = False
        self._is_broken_off = False

    def deliver(self, assignment: Assignment) -> Sent:
        messages = sent_bytes = 0
        for response, size_bytes in deliver_messages(assignment, self._flow.secret):
            self.push(response, size_bytes)
            messages += 1
            sent_bytes += size_bytes
        return Sent(messages, sent_bytes)

    def interrupt(self, tokens: bytes, reason: InterruptReason) -> None:
        self.push(pb.WorkResponse(interrupt=interrupt_message(tokens, reason)), len(tokens))

    def go_away(self) -> None:
        self.push(pb.WorkResponse(go_away=AWAY))

    def push(self, response: pb.WorkResponse | Forwarded, size_bytes: int = _OWED_BYTES) -> None:
        self._waiting.append((response, size_bytes))
        self._queued_bytes += size_bytes
        self._changed.set()

    def block_if_full(self) -> bool:
        """True once when the bound is passed; `Flow.room` is called in the end."""
        if self._blocked:
            return False
        self._most_messages = most_messages(self._flow.queue_count(self.number))
        self._blocked = self._queued_bytes >= self._flow.stream_bytes() or len(self._waiting) >= self._most_messages
        return self._blocked

    def owe(self, tokens: int) -> None:
        """A settle was read: its confirmation will come."""
        self._owed += 1
        self._owed_tokens += tokens

    def disown(self, tokens: int) -> None:
        """Not yet: the settle is taken up again."""
        self._owed -= 1
        self._owed_tokens -= tokens

    def merge_confirmed(self) -> None:
        """From here on, what was settled within a few milliseconds is confirmed in one message."""
        self._plain = []

    def confirm(self, confirmation: Confirmation) -> None:
        self.answer(confirmed_of(confirmation), confirmation.tokens)

    def answer(self, confirmed: pb.SettleConfirmed, tokens: int) -> None:
        """What was owed of so many tokens."""
        if self._plain is not None and not confirmed.HasField("problem"):
            self._plain.append((confirmed.sequence, tokens))
            if len(self._plain) == 1:
                asyncio.get_running_loop().call_later(_MERGE_S, self._confirm_plain)
            return
        self.disown(tokens)
        self.push(pb.WorkResponse(confirmed=confirmed), _OWED_BYTES + 8 * len(confirmed.refused))

    def _confirm_plain(self) -> None:
        plain, self._plain = self._plain or [], []
        sequences = [sequence for sequence, _ in plain]
        for _, tokens in plain:
            self.disown(tokens)
        confirmed = pb.SettleConfirmed(sequence=sequences[0], also=sequences[1:])
        self.push(pb.WorkResponse(confirmed=confirmed), _OWED_BYTES + 4 * len(sequences))

    async def room(self) -> None:
        """Until there is room for what the next request may bring."""
        while self._queued_bytes + self._owed_bytes >= self._flow.stream_bytes():
            self._room.clear()
            await self._room.wait()

    @property
    def _owed_bytes(self) -> int:
        return self._owed * _OWED_BYTES + self._owed_tokens * _TOKEN_BYTES

    def close(self) -> None:
        """The worker sends no more: `write_all` ends when everything owed is written."""
        self.closing = True
        self._changed.set()

    def break_off(self) -> None:
        """The stream is refused: what is being written is the last."""
        self._is_broken_off = True
        self._changed.set()

    def unsent(self) -> bytes:
        """The tokens of deliveries that were not handed to gRPC."""
        each = [
            pb.WorkResponse.FromString(response.response) if isinstance(response, Forwarded) else response
            for response, _ in self._waiting
        ]
        return b"".join([response.deliver.ack_tokens for response in each])

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
            if self._blocked and few and self._queued_bytes < self._flow.stream_bytes() // 2:
                self._blocked = False
                self._flow.room(self.number)
