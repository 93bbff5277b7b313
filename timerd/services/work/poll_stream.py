"""A Work stream without a wire: to dispatch and to the other instances a call that waits for tasks is a worker like any
other, and what is sent to it waits here for that call.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, cast

from timerd.services.work.home_worker import each_token
from timerd.services.work.work_stream import Flow, Forwarded, WorkStream
from timerd.v1 import work_service_pb2 as pb

# What one call is given, or a message more.
REPLY_BYTES = 1 << 20


class Serves(NamedTuple):
    """Which calls a stream is good for. `slots`: of the pool that several queues share; 0 where it is one queue."""

    namespace: str
    queues: tuple[str, ...]
    slots: int
    lease_ms: int


class PollStream(WorkStream):
    """Of one call that receives, and of what it has got until that is finished. `held`: ack token -> until when its
    lease may last, by the clock of the loop."""

    def __init__(self, flow: Flow, serves: Serves) -> None:
        super().__init__(cast(Any, None), flow)
        self.serves = serves
        self.held: dict[bytes, float] = {}
        self.lost: set[bytes] = set()
        self.interrupted: dict[bytes, pb.InterruptReason] = {}
        self.is_going_away = False
        self.idle_since_s = 0.0
        self._brought: list[pb.Deliver] = []
        self._brought_bytes = 0
        self._expected: dict[int, asyncio.Future[pb.SettleConfirmed]] = {}
        self._something = asyncio.Event()

    def push(self, response: pb.WorkResponse | Forwarded, size_bytes: int = 0) -> None:
        if isinstance(response, Forwarded):
            response.written(size_bytes)
            response = pb.WorkResponse.FromString(response.response)
        kind = response.WhichOneof("response")
        if kind == "deliver":
            self._brought.append(response.deliver)
            self._brought_bytes += size_bytes
            self._something.set()
        elif kind == "confirmed":
            self._confirmed(response.confirmed)
        elif kind == "extended":
            self.lost.update(each_token(response.extended.lost))
        elif kind == "interrupt":
            self._interrupted(response.interrupt)
        elif kind == "go_away":
            self.is_going_away = True
            self._something.set()

    def _interrupted(self, said: pb.Interrupt) -> None:
        tokens = each_token(said.ack_tokens)
        if said.reason == pb.INTERRUPT_REASON_LOST:
            self.lost.update(tokens)
        else:
            self.interrupted.update(dict.fromkeys(tokens, said.reason))

    def block_if_full(self) -> bool:
        if self._blocked or self._brought_bytes < REPLY_BYTES:
            return False
        self._blocked = True
        return True

    def unblock(self) -> None:
        if self._blocked:
            self._blocked = False
            self._flow.room(self.number)

    async def something(self, wait_s: float) -> None:
        """Until tasks have come, or none will."""
        try:
            async with asyncio.timeout(wait_s):
                await self._something.wait()
        except TimeoutError:
            pass

    def take(self) -> list[pb.Deliver]:
        """What has come."""
        self._something.clear()
        brought, self._brought, self._brought_bytes = self._brought, [], 0
        return brought

    def expect(self, sequence: int) -> asyncio.Future[pb.SettleConfirmed]:
        """The answer to the settle of that number."""
        future: asyncio.Future[pb.SettleConfirmed] = asyncio.get_running_loop().create_future()
        self._expected[sequence] = future
        return future

    def _confirmed(self, confirmed: pb.SettleConfirmed) -> None:
        future = self._expected.pop(confirmed.sequence, None)
        if future is not None and not future.done():
            future.set_result(confirmed)
