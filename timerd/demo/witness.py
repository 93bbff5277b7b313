"""The worker of the demo, a process of its own: writes down each delivery, then acknowledges it.

It speaks the Work stream itself instead of using the SDK's Worker, because the verdict needs the instant at which each
ack was confirmed, and because a witness should not share code with the accused.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from timerd.demo.records import Confirmed, DeliveryRecord, LogWriter, now_ms
from timerd.sdk.transport import Connection, ConnectOptions
from timerd.sdk.values import encode_id
from timerd.v1 import work_service_pb2 as pb
from timerd.v1 import work_service_pb2_grpc as rpc

_CREDIT = 2000
_RECONNECT_S = 0.05
_REPEAT_S = 0.25
READY = "ready"
# Of a settle that will not be possible later either.
_FAILED_PRECONDITION = 9


class Witness:
    """One queue, one stream after the other; what was not confirmed is acknowledged again on the next one, and on the
    same one where that is what the server asks for: whose instance it was may have to be succeeded first."""

    def __init__(self, target: str, queue: str, log: LogWriter) -> None:
        self._target = target
        self._queue = queue
        self._log = log
        self._sequence = 0
        self._unconfirmed: dict[int, tuple[bytes, list[DeliveryRecord]]] = {}
        self._repeating: set[asyncio.Task[None]] = set()
        # A stream takes one write at a time.
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        async with Connection(ConnectOptions(self._target)).open_channel() as channel:
            stub: Any = rpc.WorkServiceStub(channel)
            while True:
                try:
                    await self._stream(stub.Work())
                except grpc.aio.AioRpcError as error:
                    print(f"the stream ended: {error.code().name} {error.details()}", file=sys.stderr)
                await asyncio.sleep(_RECONNECT_S)

    async def _stream(self, stream: Any) -> None:  # noqa: ANN401 - the stub has no types
        resume = b"".join(tokens for tokens, _ in self._unconfirmed.values())
        credit = pb.Credit(queue=self._queue, tasks=_CREDIT)
        await stream.write(pb.WorkRequest(open=pb.Open(worker="demo witness", credits=[credit], resume=resume)))
        for sequence, (tokens, _) in list(self._unconfirmed.items()):
            await stream.write(_ack(sequence, tokens))
        async for response in stream:
            received_ms = now_ms()
            match response.WhichOneof("response"):
                case "opened":
                    print(READY, flush=True)
                case "deliver":
                    await self._receive(stream, response.deliver, received_ms)
                case "confirmed" if _may_pass(response.confirmed):
                    self._repeat_soon(stream, response.confirmed.sequence)
                case "confirmed":
                    self._confirm(response.confirmed, received_ms)

    async def _receive(self, stream: Any, deliver: pb.Deliver, received_ms: float) -> None:  # noqa: ANN401 - as above
        deliveries = read_deliveries(deliver, received_ms)
        self._log.write(deliveries)
        self._sequence += 1
        self._unconfirmed[self._sequence] = (deliver.ack_tokens, deliveries)
        credit = pb.Credit(queue=self._queue, tasks=len(deliveries))
        async with self._writing:
            await stream.write(_ack(self._sequence, deliver.ack_tokens))
            await stream.write(pb.WorkRequest(credit=credit))

    def _repeat_soon(self, stream: Any, sequence: int) -> None:  # noqa: ANN401 - as above
        repeating = asyncio.create_task(self._repeat(stream, sequence))
        self._repeating.add(repeating)
        repeating.add_done_callback(self._repeating.discard)

    async def _repeat(self, stream: Any, sequence: int) -> None:  # noqa: ANN401 - as above
        await asyncio.sleep(_REPEAT_S)
        tokens, _ = self._unconfirmed.get(sequence, (b"", []))
        try:
            async with self._writing:
                await stream.write(_ack(sequence, tokens))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as gone:
            print(f"the next stream says it again: {gone}", file=sys.stderr)

    def _confirm(self, confirmed: pb.SettleConfirmed, at_ms: float) -> None:
        _, deliveries = self._unconfirmed.pop(confirmed.sequence, (b"", []))
        refused = set(confirmed.refused)
        if confirmed.HasField("problem") and not refused:
            refused = set(range(len(deliveries)))
        self._log.write(
            Confirmed(each.delivery_id, each.attempt, at_ms)
            for index, each in enumerate(deliveries)
            if index not in refused
        )


def _may_pass(confirmed: pb.SettleConfirmed) -> bool:
    """The settle was not stored, and may be later."""
    return confirmed.HasField("problem") and confirmed.problem.code != _FAILED_PRECONDITION


def _ack(sequence: int, tokens: bytes) -> pb.WorkRequest:
    settle = pb.Settle(sequence=sequence, action=pb.SETTLE_ACTION_ACK, ack_tokens=tokens)
    return pb.WorkRequest(settle=settle)


def read_deliveries(deliver: pb.Deliver, received_ms: float) -> list[DeliveryRecord]:
    """The columns of one message as lines of the log."""
    count = len(deliver.fire_at_ms)
    lengths = list(deliver.payload_lengths)
    if len(lengths) == 1:
        lengths *= count
    templates = [deliver.templates[at] for at in deliver.template_index or [0] * count]
    payloads = [deliver.payloads[start:end] for start, end in pairwise(accumulate(lengths, initial=0))]
    return [
        DeliveryRecord(
            number=int(payloads[index]),
            task_id=encode_id(_cut(deliver.task_ids, index, count)),
            delivery_id=encode_id(_cut(deliver.delivery_ids, index, count)),
            attempt=deliver.attempts[index] if deliver.attempts else 1,
            fire_at_ms=deliver.fire_at_ms[index],
            received_ms=received_ms,
            fencing_scope=templates[index].fencing_scope,
            fencing_token=templates[index].fencing_token,
        )
        for index in range(count)
    ]


def _cut(column: bytes, index: int, count: int) -> bytes:
    size = len(column) // count
    return column[index * size : (index + 1) * size]


async def _main(target: str, queue: str, log_path: Path) -> None:
    witness = asyncio.create_task(Witness(target, queue, LogWriter(log_path)).run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, witness.cancel)
    await asyncio.wait([witness])


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
