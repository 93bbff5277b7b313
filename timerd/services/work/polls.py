"""Calls that receive: each is a worker whose credit is one call.

What a call has got stays with its stream, which has no credit any more, until it is finished or its lease is over: so
leases, retries and the other instances see a worker that is alive. A stream with nothing in hand serves the next call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Protocol

from timerd.core.dispatch import Action
from timerd.model.errors import Overloaded
from timerd.model.progress import ProgressReport
from timerd.model.pushback import Pushback
from timerd.services.work.poll_stream import REPLY_BYTES, PollStream, Serves
from timerd.services.work.received import TASK_BYTES, received
from timerd.services.work.said import Said
from timerd.services.work.work_stream import Flow, WorkStream
from timerd.v1 import work_service_pb2 as pb

DEFAULT_LEASE_MS = 30_000
# How long a call waits at least: what is due has to come from the other instances.
LEAST_WAIT_S = 0.1
MAX_HELD = 100_000
MAX_CALLS = 1_000
RETRY_AFTER_MS = 1_000
# The name of the one that a call of several queues has.
POOL = "receive"
# A stream with nothing in hand waits so long for the next call.
IDLE_S = 10.0
SWEEP_S = 5.0
# By which a lease may end later than was thought.
MARGIN_S = 2.0


class PollFrontend(Protocol):
    """What is asked for a worker, by the wire's own stream or by these."""

    @property
    def flow(self) -> Flow: ...

    def join(self, stream: WorkStream, namespace: str, lease_ms: int) -> None: ...

    def credit(self, stream: WorkStream, queue: str, tasks: int) -> None: ...

    def declare_pool(self, stream: WorkStream, name: str, queues: Sequence[str], slots: int) -> None: ...

    def free_slots(self, stream: WorkStream, pool: str, slots: int) -> None: ...

    def settle(
        self,
        stream: WorkStream,
        sequence: int,
        action: Action,
        tokens: bytes,
        delay_ms: int | None,
        error: str,
        throttle: Pushback | None = None,
    ) -> None: ...

    def extend(self, stream: WorkStream, tokens: bytes) -> list[bytes]: ...

    def report(self, stream: WorkStream, token: bytes, said: ProgressReport) -> None: ...

    def resume(self, stream: WorkStream, tokens: bytes) -> list[bytes]: ...

    def take_back(self, stream: WorkStream, tokens: bytes) -> None: ...

    def left(self, stream: WorkStream) -> None: ...


class Polls:
    """Of one server."""

    def __init__(self, frontend: PollFrontend) -> None:
        self._frontend = frontend
        self._holders: dict[bytes, PollStream] = {}
        self._streams: set[PollStream] = set()
        self._idle: dict[Serves, list[PollStream]] = {}
        self._sequence = count(1)
        self._sweeping: asyncio.TimerHandle | None = None
        self.waiting = 0

    @property
    def in_hand(self) -> int:
        """Tasks, as far as their leases may last."""
        return len(self._holders)

    async def receive(
        self, namespace: str, queues: tuple[str, ...], most: int, wait_s: float, lease_ms: int
    ) -> list[pb.ReceivedTask]:
        """Several queues share the call as a pool. Raises Overloaded, or Unavailable where the instance goes away."""
        self._check_room(most)
        stream = self._stream(Serves(namespace, queues, most if len(queues) > 1 else 0, lease_ms))
        self.waiting += 1
        try:
            self._ask(stream, most)
            await stream.something(max(wait_s, LEAST_WAIT_S))
            # From here on it is sent nothing more.
            await self._settle(stream, b"", Said(Action.RELEASE))
        except BaseException:
            self._leave(stream)
            raise
        finally:
            self.waiting -= 1
        return self._taken(stream, most)

    async def finish(
        self, namespace: str, tokens: Sequence[bytes], said: Said
    ) -> list[tuple[list[int], pb.SettleConfirmed]]:
        """(places among the tokens, what was said of them)."""
        parts = self._parts(namespace, tokens)
        calls = [self._finish(stream, namespace, [tokens[row] for row in rows], said) for stream, rows in parts]
        confirmations = await asyncio.gather(*calls)
        return [(rows, confirmed) for (_, rows), confirmed in zip(parts, confirmations, strict=True)]

    def extend(self, namespace: str, tokens: Sequence[bytes], lease_ms: int) -> list[bytes]:
        """Those that are lost."""
        lost: list[bytes] = []
        for stream, rows in self._parts(namespace, tokens):
            part = [tokens[row] for row in rows]
            lost += self._adopt(namespace, part, lease_ms) if stream is None else self._extend(stream, part)
        return lost

    def interrupted(self, namespace: str, tokens: Sequence[bytes]) -> list[pb.Interrupt]:
        """After `extend`: what has been said of these until now."""
        found: list[pb.Interrupt] = []
        for token in tokens:
            stream = self._holders.get(token)
            if stream is not None and stream.namespace == namespace and token in stream.interrupted:
                found.append(pb.Interrupt(ack_tokens=token, reason=stream.interrupted[token]))
        return found

    def report(self, namespace: str, reports: Mapping[bytes, ProgressReport]) -> None:
        """By ack token; after `extend`. Of what is lost it is not kept."""
        for token, said in reports.items():
            if (stream := self._holders.get(token)) is not None and stream.namespace == namespace:
                self._frontend.report(stream, token, said)

    def released(self, tokens: Sequence[bytes]) -> None:
        """They did not reach the call that they were for."""
        for stream, rows in self._parts("", tokens):
            if stream is not None:
                part = [tokens[row] for row in rows]
                self._frontend.take_back(stream, b"".join(part))
                self._forget(stream, part)

    # -- streams --------------------------------------------------------------------------------------------------

    def _check_room(self, most: int) -> None:
        if self.waiting >= MAX_CALLS or len(self._holders) + most > MAX_HELD:
            raise Overloaded(
                f"{self.waiting} calls wait for tasks here and {len(self._holders):,} tasks are in hand by such calls: "
                f"{MAX_CALLS:,} and {MAX_HELD:,} are allowed. Finish tasks before receiving more, or use Work streams.",
                "TOO_MANY_RECEIVED",
                retry_after_ms=RETRY_AFTER_MS,
            )

    def _stream(self, serves: Serves) -> PollStream:
        idle = self._idle.get(serves, [])
        while idle:
            stream = idle.pop()
            if stream in self._streams and not stream.is_going_away:
                return stream
        return self._joined(serves)

    def _joined(self, serves: Serves) -> PollStream:
        stream = PollStream(self._frontend.flow, serves)
        self._frontend.join(stream, serves.namespace, serves.lease_ms)
        self._streams.add(stream)
        self._sweep_later()
        if serves.slots:
            for queue in serves.queues:
                # The other instances hear that somebody here wants its tasks.
                self._frontend.credit(stream, queue, 0)
            self._frontend.declare_pool(stream, POOL, serves.queues, serves.slots)
        return stream

    def _ask(self, stream: PollStream, most: int) -> None:
        if stream.serves.slots:
            self._frontend.free_slots(stream, POOL, most)
        else:
            self._frontend.credit(stream, stream.serves.queues[0], most)

    def _taken(self, stream: PollStream, most: int) -> list[pb.ReceivedTask]:
        """What has come, as far as it fits into a reply; the rest never left."""
        tasks: list[pb.ReceivedTask] = []
        size_bytes, unsent = 0, []
        for each in stream.take():
            for task in received(each):
                if len(tasks) < most and (not tasks or size_bytes < REPLY_BYTES):
                    tasks.append(task)
                    size_bytes += len(task.payload) + TASK_BYTES
                else:
                    unsent.append(task.ack_token)
        if unsent:
            self._frontend.take_back(stream, b"".join(unsent))
        self._hold(stream, [task.ack_token for task in tasks])
        stream.unblock()
        self._rest(stream)
        return tasks

    def _hold(self, stream: PollStream, tokens: Sequence[bytes]) -> None:
        until_s = asyncio.get_running_loop().time() + stream.serves.lease_ms / 1000 + MARGIN_S
        stream.held.update(dict.fromkeys(tokens, until_s))
        self._holders.update(dict.fromkeys(tokens, stream))

    def _forget(self, stream: PollStream, tokens: Sequence[bytes]) -> None:
        for token in tokens:
            stream.held.pop(token, None)
            stream.interrupted.pop(token, None)
            if self._holders.get(token) is stream:
                del self._holders[token]
        self._rest(stream)

    def _rest(self, stream: PollStream) -> None:
        """With nothing in hand it serves the next call."""
        if not stream.held and stream in self._streams:
            stream.lost.clear()
            stream.idle_since_s = asyncio.get_running_loop().time()
            idle = self._idle.setdefault(stream.serves, [])
            if stream not in idle:
                idle.append(stream)

    def _leave(self, stream: PollStream) -> None:
        """What came for it is nobody's."""
        if tokens := b"".join(each.ack_tokens for each in stream.take()):
            self._frontend.take_back(stream, tokens)
        self._streams.discard(stream)
        self._frontend.left(stream)

    def _sweep_later(self) -> None:
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        """Leases that are over, and streams that nobody wants."""
        self._sweeping = None
        now_s = asyncio.get_running_loop().time()
        for stream in list(self._streams):
            if over := [token for token, until_s in stream.held.items() if until_s <= now_s]:
                self._forget(stream, over)
        for key, idle in list(self._idle.items()):
            stays = [each for each in idle if now_s - each.idle_since_s < IDLE_S and each in self._streams]
            for stream in idle:
                if stream not in stays and stream in self._streams:
                    self._leave(stream)
            self._idle[key] = stays
            if not stays:
                del self._idle[key]
        if self._streams:
            self._sweep_later()

    # -- what is said of deliveries -------------------------------------------------------------------------------

    def _parts(self, namespace: str, tokens: Sequence[bytes]) -> list[tuple[PollStream | None, list[int]]]:
        """By the stream that has them; None: another instance has given them, or this one before a restart."""
        parts: dict[PollStream | None, list[int]] = {}
        for row, token in enumerate(tokens):
            stream = self._holders.get(token)
            known = stream is not None and namespace in ("", stream.namespace)
            parts.setdefault(stream if known else None, []).append(row)
        return list(parts.items())

    async def _finish(
        self, stream: PollStream | None, namespace: str, tokens: Sequence[bytes], said: Said
    ) -> pb.SettleConfirmed:
        if stream is not None:
            confirmed = await self._settle(stream, b"".join(tokens), said)
            again = set(confirmed.refused)
            self._forget(stream, [token for row, token in enumerate(tokens) if row not in again])
            return confirmed
        passing = self._stream(Serves(namespace, (), 0, DEFAULT_LEASE_MS))
        try:
            # The instance that has sent them hears that their worker is here.
            self._frontend.resume(passing, b"".join(tokens))
            return await self._settle(passing, b"".join(tokens), said)
        finally:
            self._rest(passing)

    async def _settle(self, stream: PollStream, tokens: bytes, said: Said) -> pb.SettleConfirmed:
        sequence = next(self._sequence)
        confirmed = stream.expect(sequence)
        self._frontend.settle(stream, sequence, said.action, tokens, *said[1:])
        return await confirmed

    def _extend(self, stream: PollStream, tokens: Sequence[bytes]) -> list[bytes]:
        lost = {*self._frontend.extend(stream, b"".join(tokens)), *stream.lost.intersection(tokens)}
        self._hold(stream, [token for token in tokens if token not in lost])
        self._forget(stream, list(lost))
        return [token for token in tokens if token in lost]

    def _adopt(self, namespace: str, tokens: Sequence[bytes], lease_ms: int) -> list[bytes]:
        """From another stream, wherever that is."""
        stream = self._joined(Serves(namespace, (), 0, lease_ms))
        lost = self._frontend.resume(stream, b"".join(tokens))
        self._hold(stream, [token for token in tokens if token not in lost])
        self._rest(stream)
        return lost
