"""A worker that keeps each delivery for a while before it acknowledges it, and writes down what it received and when
each ack was confirmed.

It speaks the Work stream itself, because the verdict needs the instant of each confirmation. After a broken stream it
names what it has in hand on the next one, and repeats the acks that were not confirmed. One in twenty it repeats
although it was confirmed: that must change nothing.

Of two workers one may read the confirmation of an ack before the other reads what was sent to it before that ack came:
nothing orders two streams. So it asks again and again for a sign that comes behind everything that was sent to it, and
writes down with each delivery the instant after which it was sent for certain. After a SIGCONT it says `awake` when it
has read everything that was sent to it until then.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import math
import signal
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import grpc
import grpc.aio

from timerd.demo.records import Away, Confirmed, DeliveryRecord, LogWriter, now_ms
from timerd.demo.witness import read_deliveries
from timerd.sdk.transport.connection import Connection
from timerd.sdk.transport.options import ConnectOptions
from timerd.v1 import work_service_pb2 as pb
from timerd.v1 import work_service_pb2_grpc as rpc

TOKEN_BYTES = 64
_CREDIT = 2000
_RECONNECT_S = 0.03
_LOOK_S = 0.01
_ASK_AGAIN_MS = 100
_REPEATED_SHARE = 0.05
_REPEAT_WITHIN_MS = 10_000
# Asked to extend a delivery that it never made, the server answers behind everything that it has sent before.
_NOBODYS_TOKEN = bytes(TOKEN_BYTES)


class Holder:
    def __init__(
        self,
        target: str,
        queue: str,
        log: LogWriter,
        rng: Random,
        hold_ms: tuple[int, int],
        lease_ms: int,
        extend_ms: int = 0,
    ) -> None:
        self._target = target
        self._queue = queue
        self._log = log
        self._rng = rng
        self._hold_ms = hold_ms
        self._lease_ms = lease_ms
        # 0: never.
        self._extend_ms = extend_ms
        self._extended_ms = 0.0
        # When the sign was asked for that has not come yet; when that was that has come last.
        self._asked_ms: float | None = None
        self._heard_ms = 0.0
        # When it was told to go on, until it has said that it is awake.
        self._woken_ms = math.inf
        # Whose ack this stream has confirmed: what it brings from then on was sent after it.
        self._over: set[str] = set()
        self._sequence = 0
        # (when to acknowledge, token): still being worked on.
        self._held: list[tuple[float, bytes]] = []
        self._deliveries: dict[bytes, DeliveryRecord] = {}
        # Acknowledged, by sequence, until it is confirmed.
        self._unconfirmed: dict[int, list[bytes]] = {}
        self._said_ready = False
        # Confirmed, and to be said again at that instant; and what was said again, by sequence.
        self._to_repeat: list[tuple[float, bytes]] = []
        self._repeated: set[int] = set()

    async def run(self) -> None:
        async with Connection(ConnectOptions(self._target)).open_channel() as channel:
            stub: Any = rpc.WorkServiceStub(channel)
            while True:
                try:
                    await self._one_stream(stub.Work())
                except grpc.aio.AioRpcError as error:
                    print(f"the stream ended: {error.code().name} {error.details()}", file=sys.stderr)
                await asyncio.sleep(_RECONNECT_S)

    def wake(self) -> None:
        self._woken_ms = now_ms()

    def _in_hand(self) -> list[bytes]:
        return [*(token for tokens in self._unconfirmed.values() for token in tokens), *(t for _, t in self._held)]

    async def _one_stream(self, stream: Any) -> None:  # noqa: ANN401 - the stub has no types
        self._asked_ms = None
        self._over.clear()
        before_ms = self._heard_ms
        # Nothing comes on a stream that was sent before it was there.
        self._heard_ms = now_ms()
        credit = pb.Credit(queue=self._queue, tasks=_CREDIT)
        open_ = pb.Open(worker="holder", credits=[credit], resume=b"".join(self._in_hand()), lease_ms=self._lease_ms)
        outgoing: asyncio.Queue[pb.WorkRequest] = asyncio.Queue()
        outgoing.put_nowait(pb.WorkRequest(open=open_))
        for sequence, tokens in self._unconfirmed.items():
            outgoing.put_nowait(_ack(sequence, tokens))
        # One writer, because a stream takes one message at a time.
        writing = asyncio.create_task(_write(stream, outgoing))
        acking = asyncio.create_task(self._acknowledge(outgoing))
        try:
            async for response in stream:
                if before_ms and response.WhichOneof("response") == "opened":
                    self._log.write([Away(before_ms, now_ms())])
                self._take(response, outgoing)
        finally:
            writing.cancel()
            acking.cancel()
            await asyncio.wait([writing, acking])

    def _take(self, response: pb.WorkResponse, outgoing: asyncio.Queue[pb.WorkRequest]) -> None:
        received_ms = now_ms()
        match response.WhichOneof("response"):
            case "opened":
                self._lose(_cut(response.opened.lost))
                if not self._said_ready:
                    print("ready", flush=True)
                    self._said_ready = True
            case "deliver":
                self._receive(response.deliver, received_ms)
                outgoing.put_nowait(
                    pb.WorkRequest(credit=pb.Credit(queue=self._queue, tasks=len(response.deliver.fire_at_ms)))
                )
            case "confirmed":
                self._confirm(response.confirmed, received_ms)
            case "extended" if self._asked_ms is not None and _NOBODYS_TOKEN in _cut(response.extended.lost):
                self._hear(self._asked_ms)

    def _hear(self, asked_ms: float) -> None:
        self._asked_ms, self._heard_ms = None, asked_ms
        if asked_ms > self._woken_ms:
            self._woken_ms = math.inf
            print("awake", flush=True)

    def _receive(self, deliver: pb.Deliver, received_ms: float) -> None:
        read = read_deliveries(deliver, received_ms)
        deliveries = [
            replace(each, sent_after_ms=received_ms if each.delivery_id in self._over else self._heard_ms)
            for each in read
        ]
        self._log.write(deliveries)
        for token, delivery in zip(_cut(deliver.ack_tokens), deliveries, strict=True):
            self._deliveries[token] = delivery
            heapq.heappush(self._held, (received_ms + self._rng.uniform(*self._hold_ms), token))

    def _lose(self, tokens: Iterable[bytes]) -> None:
        lost = set(tokens)
        if lost:
            print(f"{len(lost)} deliveries are no longer held", file=sys.stderr)
        self._held = [each for each in self._held if each[1] not in lost]
        heapq.heapify(self._held)

    def _extend(self) -> list[bytes]:
        """What to extend now. What was lost is kept and acknowledged late: that counts for any attempt."""
        tokens: list[bytes] = []
        if self._extend_ms and now_ms() - self._extended_ms >= self._extend_ms:
            self._extended_ms = now_ms()
            tokens = self._in_hand()
        if self._asked_ms is None and now_ms() - self._heard_ms >= _ASK_AGAIN_MS:
            self._asked_ms = now_ms()
            tokens.append(_NOBODYS_TOKEN)
        return tokens

    async def _acknowledge(self, outgoing: asyncio.Queue[pb.WorkRequest]) -> None:
        while True:
            if extended := self._extend():
                outgoing.put_nowait(pb.WorkRequest(extend=pb.Extend(ack_tokens=b"".join(extended))))
            tokens = []
            while self._held and self._held[0][0] <= now_ms():
                tokens.append(heapq.heappop(self._held)[1])
            if tokens:
                self._sequence += 1
                self._unconfirmed[self._sequence] = tokens
                outgoing.put_nowait(_ack(self._sequence, tokens))
            if repeated := self._due_repeats():
                self._sequence += 1
                self._repeated.add(self._sequence)
                outgoing.put_nowait(_ack(self._sequence, repeated))
            await asyncio.sleep(_LOOK_S)

    def _due_repeats(self) -> list[bytes]:
        tokens = []
        while self._to_repeat and self._to_repeat[0][0] <= now_ms():
            tokens.append(heapq.heappop(self._to_repeat)[1])
        return tokens

    def _confirm(self, confirmed: pb.SettleConfirmed, at_ms: float) -> None:
        if confirmed.sequence in self._repeated:
            self._repeated.discard(confirmed.sequence)
            return
        tokens = self._unconfirmed.pop(confirmed.sequence, [])
        refused = {tokens[index] for index in confirmed.refused}
        if confirmed.HasField("problem") and not refused:
            refused = set(tokens)
        if refused:
            print(f"{len(refused)} of {len(tokens)} acks were refused: {confirmed.problem}", file=sys.stderr)
        if again_ms := confirmed.problem.retry_after_ms:
            for token in refused:
                heapq.heappush(self._held, (at_ms + again_ms, token))
        settled = [(token, self._deliveries.pop(token)) for token in tokens if not (again_ms and token in refused)]
        self._over.update(each.delivery_id for token, each in settled if token not in refused)
        for token, _ in settled:
            if token not in refused and self._rng.random() < _REPEATED_SHARE:
                heapq.heappush(self._to_repeat, (at_ms + self._rng.uniform(0, _REPEAT_WITHIN_MS), token))
        self._log.write(Confirmed(each.delivery_id, each.attempt, at_ms) for t, each in settled if t not in refused)


async def _write(stream: Any, outgoing: asyncio.Queue[pb.WorkRequest]) -> None:  # noqa: ANN401 - as above
    while True:
        try:
            await stream.write(await outgoing.get())
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            # The reading side says why.
            return


def _ack(sequence: int, tokens: Iterable[bytes]) -> pb.WorkRequest:
    settle = pb.Settle(sequence=sequence, action=pb.SETTLE_ACTION_ACK, ack_tokens=b"".join(tokens))
    return pb.WorkRequest(settle=settle)


def _cut(tokens: bytes) -> list[bytes]:
    return [tokens[at : at + TOKEN_BYTES] for at in range(0, len(tokens), TOKEN_BYTES)]


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("queue")
    parser.add_argument("log", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hold-ms", type=int, nargs=2, default=(0, 0))
    parser.add_argument("--lease-ms", type=int, default=30_000)
    parser.add_argument("--extend-ms", type=int, default=0)
    given = parser.parse_args()
    hold_ms = (given.hold_ms[0], given.hold_ms[1])
    log, rng = LogWriter(given.log), Random(given.seed)
    holder = Holder(given.target, given.queue, log, rng, hold_ms, given.lease_ms, given.extend_ms)
    running = asyncio.create_task(holder.run())
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, running.cancel)
    loop.add_signal_handler(signal.SIGCONT, holder.wake)
    await asyncio.wait([running])
    if not running.cancelled():
        running.result()


if __name__ == "__main__":
    asyncio.run(_main())
