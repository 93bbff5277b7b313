"""The Session stream: many messages under way at once, each repeated as the very same bytes until it is answered.

States of a message: waiting (in `_outbox`), unanswered (sent on the live stream), resting (a refusal that may pass; a
timer brings it back to waiting), done. A broken stream turns every unanswered message back to waiting, marked
uncertain: it may have been stored. The repeat carries the same request_id, so storing twice is the server's to prevent
(G2). The deadline of a message is the only way in which it ends without the server's word.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from timerd.sdk.transport.backoff import Backoff
from timerd.sdk.transport.duplex import Duplex
from timerd.sdk.values import (
    InvalidTask,
    TimerdError,
    Unavailable,
    closed,
    error_of_problem,
    final,
    is_hopeless,
    is_retryable,
    refused,
    sendable,
    timed_out,
)
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb

Answer = pb.SessionResponse | TimerdError
OnAnswer = Callable[[Answer], None]
OpenStream = Callable[[Callable[[pb.SessionResponse], None]], Duplex[pb.SessionResponse]]


@dataclass(slots=True, eq=False)
class _Message:
    """One request from its first sending to its answer."""

    sequence: int
    data: bytes
    on_answer: OnAnswer
    timer: asyncio.TimerHandle
    backoff: Backoff
    done: bool = False
    # An earlier try may have been stored though no answer came.
    uncertain: bool = False
    last_error: TimerdError | None = None
    # An answer in which some items are unknown: better than nothing at the deadline.
    last_response: pb.SessionResponse | None = None


class Session:
    """One shared stream, opened when there is something to send and opened again when it breaks."""

    def __init__(self, open_stream: OpenStream, target: str, timeout_s: float) -> None:
        self._open_stream = open_stream
        self._target = target
        self._timeout_s = timeout_s
        self._sequence = 0
        self._open: dict[int, _Message] = {}
        self._outbox: deque[_Message] = deque()
        self._unanswered: dict[int, _Message] = {}
        self._unanswered_bytes = 0
        self._window: pb.SessionWindow | None = None
        self._stream: Duplex[pb.SessionResponse] | None = None
        self._was_open = False
        self._wanted = asyncio.Event()
        self._runner: asyncio.Task[None] | None = None
        self._backoff = Backoff()
        self._heard_s = 0.0

    def new_request(self) -> pb.SessionRequest:
        self._sequence += 1
        return pb.SessionRequest(sequence=self._sequence)

    def submit(self, request: pb.SessionRequest, on_answer: OnAnswer, waited_s: float = 0.0) -> None:
        """Calls `on_answer` exactly once; `waited_s` of the timeout has passed already."""
        try:
            data = sendable(request.SerializeToString(deterministic=True))
        except InvalidTask as too_large:
            on_answer(too_large)
            return
        timer = asyncio.get_running_loop().call_later(self._timeout_s - waited_s, self._expire, request.sequence)
        message = _Message(request.sequence, data, on_answer, timer, Backoff())
        self._open[message.sequence] = message
        if self._runner is None:
            self._runner = asyncio.create_task(self._run(), name="timerd session")
        self._wake(message)

    async def call(self, request: pb.SessionRequest) -> pb.SessionResponse:
        answered: asyncio.Future[pb.SessionResponse] = asyncio.get_running_loop().create_future()

        def on_answer(answer: Answer) -> None:
            if answered.done():
                return
            if isinstance(answer, TimerdError):
                answered.set_exception(answer)
            else:
                answered.set_result(answer)

        self.submit(request, on_answer)
        return await answered

    async def close(self) -> None:
        """Messages without an answer end with an error that says so."""
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)
        for message in list(self._open.values()):
            uncertain = message.uncertain or message.sequence in self._unanswered
            self._finish(message, closed(uncertain))

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            ended = await self._run_stream()
            self._requeue_unanswered(ended)
            if is_hopeless(ended, was_open=self._was_open):
                for message in list(self._open.values()):
                    self._finish(message, refused(ended, message.uncertain))
            if not self._outbox:
                self._wanted.clear()
            await asyncio.sleep(self._backoff.next_s())

    async def _run_stream(self) -> TimerdError:
        self._stream = self._open_stream(self._on_response)
        # What it has not said yet is no silence.
        self._heard_s = asyncio.get_running_loop().time()
        try:
            return await self._stream.run() or Unavailable("The stream was closed.")
        finally:
            self._was_open = self._window is not None
            self._stream = None
            self._window = None

    def _on_response(self, response: pb.SessionResponse) -> None:
        self._heard_s = asyncio.get_running_loop().time()
        if response.HasField("window"):
            self._window = response.window
            self._backoff.reset()
        else:
            self._on_answer(response)
        self._pump()

    def _on_answer(self, response: pb.SessionResponse) -> None:
        message = self._unanswered.pop(response.sequence, None)
        if message is None:
            # Answered or given up before: a repeat had crossed the first answer.
            return
        self._unanswered_bytes -= len(message.data)
        if message.done:
            return
        refusal = _refusal_of(response)
        if refusal is None:
            self._finish(message, response)
        elif is_retryable(refusal):
            message.last_response = None if response.HasField("problem") else response
            self._rest(message, refusal)
        else:
            self._finish(message, final(refusal, message.uncertain))

    def _rest(self, message: _Message, refusal: TimerdError) -> None:
        message.uncertain = message.uncertain or not refusal.reason
        message.last_error = refusal
        wait_s, loop = max(refusal.retry_after or 0.0, message.backoff.next_s()), asyncio.get_running_loop()
        if loop.time() + wait_s < message.timer.when():
            loop.call_later(wait_s, self._wake, message)
        else:
            self._give_up(message)

    def _wake(self, message: _Message) -> None:
        if not message.done:
            self._outbox.append(message)
            self._wanted.set()
            self._pump()

    def _pump(self) -> None:
        """Sends what the window admits; a message larger than the window goes alone."""
        while self._outbox and self._stream is not None and self._window is not None:
            message = self._outbox[0]
            if not message.done:
                if self._unanswered and not self._admits(self._window, message):
                    return
                self._unanswered[message.sequence] = message
                self._unanswered_bytes += len(message.data)
                self._stream.send(message.data)
            self._outbox.popleft()

    def _admits(self, window: pb.SessionWindow, message: _Message) -> bool:
        max_requests, max_bytes = window.max_unanswered_requests, window.max_unanswered_bytes
        if max_requests and len(self._unanswered) >= max_requests:
            return False
        return not max_bytes or self._unanswered_bytes + len(message.data) <= max_bytes

    def _requeue_unanswered(self, ended: TimerdError) -> None:
        for message in self._unanswered.values():
            message.uncertain = True
        self._outbox.extendleft(reversed(self._unanswered.values()))
        self._unanswered.clear()
        self._unanswered_bytes = 0
        for message in self._outbox:
            message.last_error = ended

    def _expire(self, sequence: int) -> None:
        self._give_up(self._open[sequence])
        if self._stream is not None and asyncio.get_running_loop().time() - self._heard_s >= self._timeout_s:
            # A silent stream may be dead without knowing it.
            self._stream.close()

    def _give_up(self, message: _Message) -> None:
        uncertain = message.uncertain or message.sequence in self._unanswered
        late = timed_out(message.last_error, uncertain, self._timeout_s, self._target)
        self._finish(message, message.last_response or late)

    def _finish(self, message: _Message, answer: Answer) -> None:
        message.done = True
        message.timer.cancel()
        del self._open[message.sequence]
        # While there is no stream nobody else takes them out, and a server may be away for days.
        while self._outbox and self._outbox[0].done:
            self._outbox.popleft()
        message.on_answer(answer)


def _refusal_of(response: pb.SessionResponse) -> TimerdError | None:
    """The error of the whole message, or of an item whose outcome is unknown: both are mended by a repeat."""
    if response.HasField("problem"):
        return error_of_problem(response.problem)
    for result in response.schedule.results:
        if result.outcome == task_pb2.ITEM_OUTCOME_UNKNOWN:
            return Unavailable(result.problem.message or "The server does not know whether a task was stored.")
    return None
