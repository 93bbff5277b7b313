"""Calls that wait for what a handler returns: the task is stored and waited for in one.

Each try is the same call, so it waits for the same task, for what is left of the time. A server of the release before
knows no such call: it stores the same task by a schedule, and is asked for its end.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cached_property, partial
from math import ceil
from typing import NamedTuple, Unpack

from timerd.sdk.scheduling.lookups import LONGEST_WAIT_S, Lookups
from timerd.sdk.scheduling.singles import Singles
from timerd.sdk.values import (
    CallExpired,
    CallFailed,
    Span,
    TaskInfo,
    TaskKeywords,
    TaskOptions,
    TaskState,
    TimerdError,
    duration_of_ms,
    new_request_id,
    payload_bytes,
    span_ms,
    template_of,
    timestamp_of_ms,
)
from timerd.v1 import timer_service_pb2 as pb

# The caller is there when the task ends, or comes back from a connection that broke.
RESULT_KEPT_S = 60.0
# So long the cancels of tasks whose callers are gone keep a client from being closed.
FORSAKEN_S = 2.0
# So much later than the answer is of use a server may say that there is none.
ANSWER_LATE_S = 10.0
# The field of a refusal where no try has come to a server in time: nothing is stored, and nobody has used it wrongly.
TOO_LATE = "template.expire_after"
# A server that is going away, or cannot look, says so at once.
AGAIN_S = 0.1


class CallAnswer(NamedTuple):
    """What a call was answered with. `state` may be none that ends a task."""

    task_id: str
    state: TaskState
    result: bytes | None
    last_error: str


class TaskCalls(Singles, Lookups):
    """The part of `Client` that calls handlers."""

    @cached_property
    def _forsaken(self) -> set[asyncio.Future[None]]:
        """Cancels of tasks whose callers are gone."""
        return set()

    async def call(
        self,
        queue: str,
        payload: bytes | str = b"",
        *,
        timeout: Span = 30.0,  # noqa: ASYNC109 - it travels with the task
        options: TaskOptions | None = None,
        **fields: Unpack[TaskKeywords],
    ) -> bytes | None:
        """The call has a task handled at once, and returns what its handler has returned; None where that is nothing.

        The task is stored as any other one. With a timeout of 10 minutes at most it is on demand, and goes before what
        waits in line (`TaskOptions.on_demand`). A caller that is cancelled cancels it.

        Args:
            queue: the queue whose workers receive the task.
            payload: the bytes that the handler receives, or a text, which is sent as UTF-8. Default nothing.
            timeout: for how long the answer is of use, a timedelta or seconds, more than 0. Then no attempt begins any
                more, and one that is under way is over. Default 30 s.
            options: what else the task has. Default nothing.
            fields: the fields of `TaskOptions` as keywords; each wins over the object.

        Raises:
            CallFailed: no attempt was acknowledged, and none follows.
            CallExpired: none was acknowledged in time.
        """
        timeout_s = span_ms(timeout, "timeout", may_be_none=False) / 1000
        wanted: TaskKeywords = {"keep_result": RESULT_KEPT_S, **fields, "expire_after": timeout}
        self._open()
        template = self._traced(template_of("call", queue, options, wanted))
        request = pb.CallRequest(
            namespace=self._namespace,
            request_id=new_request_id(),
            template=template.to_proto(),
            payload=payload_bytes(payload),
            request_time=timestamp_of_ms(self._clock()),
        )
        calling = asyncio.ensure_future(self._answer(request, timeout_s))
        try:
            answer = await asyncio.shield(calling)
        except asyncio.CancelledError:
            self._forsake(request, calling)
            raise
        return result_of(queue, answer)

    async def _answer(self, request: pb.CallRequest, timeout_s: float) -> CallAnswer:
        """Until the task has ended, or as it is after that time."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        while True:
            answer = await self._answered(request, until_s)
            if answer.state.is_over or loop.time() >= until_s:
                return answer
            await asyncio.sleep(AGAIN_S)

    async def _answered(self, request: pb.CallRequest, until_s: float) -> CallAnswer:
        """Of one call to a server, which may say before that time that the task is open."""
        left_s = self._wait_until(request, until_s)
        again, beyond_s = partial(self._wait_until, request, until_s), min(self._timeout_s, ANSWER_LATE_S)
        try:
            response = await self._calls(
                "Call", request, pb.CallResponse, wait_s=left_s, again=again, beyond_s=beyond_s
            )
        except TimerdError as failed:
            if failed.field == TOO_LATE and asyncio.get_running_loop().time() >= until_s:
                return CallAnswer("", TaskState.EXPIRED, None, "")
            if failed.code != "UNIMPLEMENTED":
                raise
            return await self._answered_in_two(request, until_s)
        result = response.result.value if response.HasField("result") else None
        return CallAnswer(response.task_id, TaskState(response.state), result, response.last_error)

    def _wait_until(self, request: pb.CallRequest, until_s: float) -> float:
        """For how long the next try asks the server to wait."""
        wait_s = min(max(0.0, until_s - asyncio.get_running_loop().time()), LONGEST_WAIT_S)
        request.timeout.CopyFrom(duration_of_ms(ceil(1000 * wait_s)))
        return wait_s

    async def _answered_in_two(self, request: pb.CallRequest, until_s: float) -> CallAnswer:
        """The same task by a schedule, and the wait for it."""
        asked = pb.ScheduleRequest(
            namespace=request.namespace,
            request_id=request.request_id,
            template=request.template,
            payload=request.payload,
            delay=duration_of_ms(0),
            request_time=request.request_time,
        )
        stored = await self._calls("Schedule", asked, pb.ScheduleResponse)
        ended = await self.wait(stored.task_id, timeout=max(0.0, until_s - asyncio.get_running_loop().time()))
        return answer_of(ended)

    def _forsake(self, request: pb.CallRequest, calling: asyncio.Future[CallAnswer]) -> None:
        """Nobody waits for the task any more, which may be on its way to the store."""
        calling.cancel()
        forsaken = asyncio.ensure_future(self._cancel_of(request))
        self._forsaken.add(forsaken)
        forsaken.add_done_callback(self._forsaken.discard)

    async def _cancel_of(self, request: pb.CallRequest) -> None:
        """The same call, which does not wait, tells the id."""
        with suppress(TimerdError):
            answer = await self._answered(request, 0.0)
            if not answer.state.is_over:
                await self.cancel(answer.task_id)

    async def close(self) -> None:
        """The call closes the client for good; calls that still wait for an answer fail.

        Tasks of calls whose callers are gone are cancelled first, for up to two seconds.

        Raises:
            TimerdError: the client lives in another event loop, which is not closed (OTHER_LOOP).
        """
        if self._forsaken:
            await asyncio.wait(set(self._forsaken), timeout=FORSAKEN_S)
        await super().close()


def answer_of(ended: TaskInfo) -> CallAnswer:
    return CallAnswer(ended.id, ended.state, ended.result, ended.last_error)


def result_of(queue: str, answer: CallAnswer) -> bytes | None:
    """What a call is answered with. Raises CallFailed, CallExpired."""
    if answer.state is TaskState.ACKED:
        return answer.result
    if answer.state is TaskState.EXPIRED or not answer.state.is_over:
        last = f" The last attempt failed: {answer.last_error}" if answer.last_error else ""
        sentence = f"No handler of the queue {queue!r} has acknowledged the task in time.{last}"
        raise CallExpired(sentence, reason="CALL_EXPIRED")
    error = f": {answer.last_error}" if answer.last_error else "."
    raise CallFailed(f"The task ended as {answer.state.name}{error}", reason="CALL_FAILED")
