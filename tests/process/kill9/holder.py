"""A worker that keeps each delivery for a while before it acknowledges it, and writes down what it received and when
each ack was confirmed.

It speaks the Work stream itself, because the verdict needs the instant of each confirmation. After a broken stream it
names what it has in hand on the next one, and repeats the acks that were not confirmed.
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import grpc
import grpc.aio

from timerd.demo.records import Confirmed, Delivery, LogWriter, now_ms
from timerd.demo.witness import read_deliveries
from timerd.sdk.connection import Connection
from timerd.v1 import work_service_pb2 as pb
from timerd.v1 import work_service_pb2_grpc as rpc

TOKEN_BYTES = 64
_CREDIT = 2000
_RECONNECT_S = 0.03
_LOOK_S = 0.01


class Holder:
    def __init__(
        self, target: str, queue: str, log: LogWriter, rng: Random, hold_ms: tuple[int, int], lease_ms: int
    ) -> None:
        self._target = target
        self._queue = queue
        self._log = log
        self._rng = rng
        self._hold_ms = hold_ms
        self._lease_ms = lease_ms
        self._sequence = 0
        # (when to acknowledge, token): still being worked on.
        self._held: list[tuple[float, bytes]] = []
        self._deliveries: dict[bytes, Delivery] = {}
        # Acknowledged, by sequence, until it is confirmed.
        self._unconfirmed: dict[int, list[bytes]] = {}
        self._said_ready = False

    async def run(self) -> None:
        async with Connection(self._target).open_channel() as channel:
            stub: Any = rpc.WorkServiceStub(channel)
            while True:
                try:
                    await self._one_stream(stub.Work())
                except grpc.aio.AioRpcError as error:
                    print(f"the stream ended: {error.code().name} {error.details()}", file=sys.stderr)
                await asyncio.sleep(_RECONNECT_S)

    async def _one_stream(self, stream: Any) -> None:  # noqa: ANN401 - the stub has no types
        in_hand = [*(token for tokens in self._unconfirmed.values() for token in tokens), *(t for _, t in self._held)]
        credit = pb.Credit(queue=self._queue, tasks=_CREDIT)
        open_ = pb.Open(worker="holder", credits=[credit], resume=b"".join(in_hand), lease_ms=self._lease_ms)
        outgoing: asyncio.Queue[pb.WorkRequest] = asyncio.Queue()
        outgoing.put_nowait(pb.WorkRequest(open=open_))
        for sequence, tokens in self._unconfirmed.items():
            outgoing.put_nowait(_ack(sequence, tokens))
        # One writer, because a stream takes one message at a time.
        writing = asyncio.create_task(_write(stream, outgoing))
        acking = asyncio.create_task(self._acknowledge(outgoing))
        try:
            async for response in stream:
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

    def _receive(self, deliver: pb.Deliver, received_ms: float) -> None:
        deliveries = read_deliveries(deliver, received_ms)
        self._log.write(deliveries)
        for token, delivery in zip(_cut(deliver.ack_tokens), deliveries, strict=True):
            self._deliveries[token] = delivery
            heapq.heappush(self._held, (received_ms + self._rng.uniform(*self._hold_ms), token))

    def _lose(self, tokens: Iterable[bytes]) -> None:
        lost = set(tokens)
        self._held = [each for each in self._held if each[1] not in lost]
        heapq.heapify(self._held)

    async def _acknowledge(self, outgoing: asyncio.Queue[pb.WorkRequest]) -> None:
        while True:
            tokens = []
            while self._held and self._held[0][0] <= now_ms():
                tokens.append(heapq.heappop(self._held)[1])
            if tokens:
                self._sequence += 1
                self._unconfirmed[self._sequence] = tokens
                outgoing.put_nowait(_ack(self._sequence, tokens))
            await asyncio.sleep(_LOOK_S)

    def _confirm(self, confirmed: pb.SettleConfirmed, at_ms: float) -> None:
        tokens = self._unconfirmed.pop(confirmed.sequence, [])
        deliveries = [self._deliveries.pop(token) for token in tokens]
        refused = set(confirmed.refused)
        if confirmed.HasField("problem") and not refused:
            refused = set(range(len(tokens)))
        self._log.write(
            Confirmed(each.delivery_id, each.attempt, at_ms)
            for index, each in enumerate(deliveries)
            if index not in refused
        )


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
    given = parser.parse_args()
    hold_ms = (given.hold_ms[0], given.hold_ms[1])
    holder = Holder(given.target, given.queue, LogWriter(given.log), Random(given.seed), hold_ms, given.lease_ms)
    running = asyncio.create_task(holder.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    await asyncio.wait([running])
    if not running.cancelled():
        running.result()


if __name__ == "__main__":
    asyncio.run(_main())
