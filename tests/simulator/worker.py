"""A worker: one Work stream at a time, and a mind of its own about each delivery."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

import grpc.aio

from tests.simulator.events import Broke, Confirmed, Delivered, Event, Held, Lost, Overdrawn, Settled
from tests.simulator.virtual_loop import Owner, VirtualLoop
from timerd.services.transport.decoding import Received
from timerd.services.work.work_stream import Forwarded, encoded
from timerd.v1 import work_service_pb2 as pb

_FENCE = struct.Struct(">QQI")
TOKEN_BYTES, DELIVERY_ID_BYTES = 64, 20
ACK, NACK, REJECT = pb.SETTLE_ACTION_ACK, pb.SETTLE_ACTION_NACK, pb.SETTLE_ACTION_REJECT
NAMES = {ACK: "ack", NACK: "nack", REJECT: "reject"}
CREDIT = 3
SECOND_THOUGHT_MS = 2_500


@dataclass(slots=True)
class InHand:
    """One delivery; `settled`: the worker has said what became of it, and waits for the confirmation."""

    name: str
    delivery_id: bytes
    token: bytes
    attempt: int
    settled: bool = False


class Home(Protocol):
    """The instance that it is connected to."""

    going_away: bool
    owner: Owner

    def serve(self, context: Any) -> asyncio.Task[None]: ...  # noqa: ANN401 - as of gRPC


class Pipe:
    """The server's side of the stream, as a gRPC context; the worker's side is `send`."""

    def __init__(self, heard: Callable[[pb.WorkResponse], None]) -> None:
        self._requests: asyncio.Queue[object] = asyncio.Queue()
        self._heard = heard

    def send(self, request: pb.WorkRequest) -> None:
        self._requests.put_nowait(Received(request, 0, "WorkRequest"))

    def end(self) -> None:
        self._requests.put_nowait(grpc.aio.EOF)

    async def read(self) -> object:
        return await self._requests.get()

    async def write(self, response: pb.WorkResponse | Forwarded) -> None:
        if isinstance(response, Forwarded):
            response = pb.WorkResponse.FromString(encoded(response))
        self._heard(response)

    async def abort(self, code: object, sentence: str, metadata: Sequence[tuple[str, object]] = ()) -> None:
        if ("timerd-reason", "REPLACED") in metadata:
            # By the worker's own word; gRPC ends the call here.
            raise asyncio.CancelledError
        raise ConnectionError(code, sentence, metadata)


@dataclass
class Worker:
    """`habits`: what it may do with a delivery, by name, one of them by chance; none: it acknowledges at once.
    `deafens`: before it hangs up, what is sent to it does not arrive."""

    name: str
    loop: VirtualLoop
    random: Random
    log: Callable[[Event], None]
    queues: tuple[str, ...]
    lease_ms: int
    habits: tuple[str, ...] = ()
    credit: int = CREDIT
    deafens: bool = False
    # Called when its stream is over.
    broke: Callable[[Worker], None] = lambda _: None
    # When what comes with this ack token was sent by the instance that holds it; 0: now.
    sent_at: Callable[[bytes], float] = lambda _: 0
    pipe: Pipe | None = None
    run: Home | None = None
    in_hand: dict[bytes, InHand] = field(default_factory=dict)
    _owed: dict[int, tuple[pb.SettleAction, InHand, int | None]] = field(default_factory=dict)
    _sequence: int = 0
    # Of its streams since the last one that was answered, this one last.
    _names: list[bytes] = field(default_factory=list)
    _streams: int = 0
    _deaf: Pipe | None = None
    # Credit on this stream, less what came for it.
    _given: dict[str, int] = field(default_factory=dict)

    # -- the stream -----------------------------------------------------------------------------------------------

    def connect(self, run: Home) -> None:
        """Brings what it has in hand, and what was not confirmed."""
        if self.pipe is not None or run.going_away or run.owner.dead:
            return
        pipe = Pipe(lambda response: self._heard(pipe, response))
        self.pipe, self.run = pipe, run
        tokens = b"".join(held.token for held in self.in_hand.values())
        self._streams += 1
        name = f"{self.name}/{self._streams}".encode()
        self._names = [*self._names[-15:], name]
        opening = pb.Open(resume=tokens, lease_ms=self.lease_ms, stream=name, replaces=self._names[:-1])
        self._ask(opening)
        pipe.send(pb.WorkRequest(open=opening))
        run.serve(pipe).add_done_callback(lambda _: self._ended(pipe), context=self.loop.outside)
        for sequence, owed in list(self._owed.items()):
            self._send_settle(sequence, *owed)

    def hang_up(self) -> None:
        """The connection breaks."""
        if self.pipe is not None:
            self.pipe.end()
            self._ended(self.pipe, hung_up=True)

    def lose(self) -> None:
        """The worker dies with all that it has in hand, and starts again."""
        self.hang_up()
        self.in_hand.clear()
        self._owed.clear()
        self._names.clear()

    def _ended(self, pipe: Pipe, *, hung_up: bool = False) -> None:
        if self.pipe is pipe:
            self.pipe = None
            going_away = self.run is not None and self.run.going_away
            self.log(Broke(self.loop.now_ms, self.name, going_away, self.queues, self.lease_ms, hung_up))
            self.broke(self)

    def cut(self) -> None:
        """The server was killed."""
        if self.pipe is not None:
            self._ended(self.pipe)

    # -- what comes -----------------------------------------------------------------------------------------------

    def _heard(self, pipe: Pipe, response: pb.WorkResponse) -> None:
        if self.pipe is not pipe or pipe is self._deaf:
            return
        kind = response.WhichOneof("response")
        if kind == "deliver":
            self._delivered(response.deliver)
        elif kind == "confirmed":
            self._confirmed(response.confirmed)
        elif kind == "opened":
            self._names = self._names[-1:]
            self._lost(response.opened.lost)
            ids = tuple(i for i, held in self.in_hand.items() if not held.settled)
            if ids:
                self.log(Held(self.loop.now_ms, self.name, ids, self.lease_ms, resumed=True))
        elif kind == "extended":
            self._lost(response.extended.lost)

    def _delivered(self, deliver: pb.Deliver) -> None:
        lengths = deliver.payload_lengths
        at = 0
        for n in range(len(deliver.fire_at_ms)):
            size = lengths[n] if len(lengths) > 1 else lengths[0]
            payload, at = deliver.payloads[at : at + size], at + size
            name = self._name_of(payload, deliver.queue, deliver.fire_at_ms[n])
            template = deliver.templates[deliver.template_index[n] if deliver.template_index else 0]
            token = deliver.ack_tokens[n * TOKEN_BYTES : (n + 1) * TOKEN_BYTES]
            delivery_id = deliver.delivery_ids[n * DELIVERY_ID_BYTES : (n + 1) * DELIVERY_ID_BYTES]
            attempt = deliver.attempts[n] if deliver.attempts else 1
            if not self._spend(deliver.queue):
                self.log(Overdrawn(self.loop.now_ms, self.name, name))
            held = self.in_hand[delivery_id] = InHand(name, delivery_id, token, attempt)
            self.log(
                Delivered(
                    self.loop.now_ms,
                    self.name,
                    name,
                    delivery_id,
                    attempt,
                    deliver.fire_at_ms[n],
                    template.fencing_scope,
                    template.fencing_token,
                    self.lease_ms,
                    self.sent_at(token),
                    _fence_of(deliver.order_fences, n),
                )
            )
            self._decide(held)

    def _name_of(self, payload: bytes, queue: str, fire_at_ms: int) -> str:
        """A task is called by its payload."""
        return payload.decode()

    def _confirmed(self, confirmed: pb.SettleConfirmed) -> None:
        """What could not be stored is said again later."""
        for sequence in (confirmed.sequence, *confirmed.also):
            if sequence not in self._owed:
                continue
            refused = bool(confirmed.refused) or confirmed.HasField("problem")
            again = confirmed.HasField("problem") and confirmed.problem.reason != "NOT_SETTLED"
            self.log(Confirmed(self.loop.now_ms, self.name, sequence, refused, again))
            if again:
                self.loop.later(200, lambda sequence=sequence: self._again(sequence))  # type: ignore[misc]
                continue
            _, held, _ = self._owed.pop(sequence)
            if self.in_hand.get(held.delivery_id) is held:
                del self.in_hand[held.delivery_id]

    def _again(self, sequence: int) -> None:
        if sequence in self._owed and self.pipe is not None:
            self._send_settle(sequence, *self._owed[sequence])

    def _lost(self, tokens: bytes) -> None:
        lost = {tokens[at : at + TOKEN_BYTES] for at in range(0, len(tokens), TOKEN_BYTES)}
        gone = [i for i, held in self.in_hand.items() if held.token in lost]
        for delivery_id in gone:
            del self.in_hand[delivery_id]
        if gone:
            self.log(Lost(self.loop.now_ms, self.name, tuple(gone)))

    # -- what it does ---------------------------------------------------------------------------------------------

    def _decide(self, held: InHand) -> None:
        habit = self.random.choice(self.habits) if self.habits else "ack"
        chance = self.random.choice
        if habit == "ack":
            self.loop.later(chance((0, 0, 1, 50)) if self.habits else 0, lambda: self.settle(held, ACK))
        elif habit == "late ack":
            self.loop.later(self.lease_ms * chance((1.1, 2.5, 6)), lambda: self.settle(held, ACK))
        elif habit == "ack at the end":
            self.loop.later(self.lease_ms + chance((-1, 0, 1, 99, 100, 101)), lambda: self.settle(held, ACK))
        elif habit == "ack twice":
            for delay_ms in (0, chance((0, 5, 2_000))):
                self.loop.later(delay_ms, lambda: self.settle(held, ACK))
        elif habit == "nack":
            wait_ms = chance((None, 0, 0, 100, 5_000))
            self.loop.later(chance((0, 20)), lambda: self.settle(held, NACK, wait_ms))
        elif habit == "late nack":
            wait_ms = chance((None, 0, 3_000))
            self.loop.later(self.lease_ms * chance((1.05, 1.5, 3)), lambda: self.settle(held, NACK, wait_ms))
        elif habit == "reject":
            self._reject(held, chance((0, 0, 20, self.lease_ms * 1.5)))
        elif habit == "long nack":
            self._extend(held, chance((4, 9)), NACK)
        elif habit == "extend":
            self._extend(held, chance((2, 6, 20)), chance((ACK, ACK, NACK, REJECT)))
        elif habit == "hang up":
            self._deaf = self.pipe if self.deafens else None
            self.loop.later(chance((0, 300)), self.hang_up)
        elif habit == "lose":
            self.loop.later(chance((0, 300)), self.lose)
        # "vanish": nothing more is heard of it.

    def _reject(self, held: InHand, in_ms: float) -> None:
        """One in four thinks better of it, as another worker would who has the same token."""
        self.loop.later(in_ms, lambda: self.settle(held, REJECT))
        if held.delivery_id[0] % 4 == 0:
            self.loop.later(SECOND_THOUGHT_MS, lambda: self.settle(held, ACK))

    def _extend(self, held: InHand, times: int, action: pb.SettleAction) -> None:
        """Keeps the lease for a while."""
        if self.in_hand.get(held.delivery_id) is not held or held.settled:
            return
        if not times:
            self.settle(held, action)
            return
        if self.pipe is not None:
            self.pipe.send(pb.WorkRequest(extend=pb.Extend(ack_tokens=held.token)))
            pipe = self.pipe
            self.loop.later(1, lambda: self._extended(pipe, held.delivery_id))
        self.loop.later(self.lease_ms / 3, lambda: self._extend(held, times - 1, action))

    def _extended(self, pipe: Pipe, delivery_id: bytes) -> None:
        """It was heard, unless the stream broke in that moment."""
        if self.pipe is pipe:
            self.log(Held(self.loop.now_ms, self.name, (delivery_id,), self.lease_ms - 1))

    def settle(self, held: InHand, action: pb.SettleAction, delay_ms: int | None = None) -> None:
        """Also of what it was told that it has lost: a worker may be late."""
        held.settled = True
        self._sequence += 1
        owed = (action, held, delay_ms)
        self._owed[self._sequence] = owed
        self.log(
            Settled(
                self.loop.now_ms, self.name, self._sequence, NAMES[action], held.name, held.delivery_id, held.attempt
            )
        )
        if self.pipe is not None:
            self._send_settle(self._sequence, *owed)

    def _send_settle(self, sequence: int, action: pb.SettleAction, held: InHand, delay_ms: int | None) -> None:
        assert self.pipe is not None
        asked = pb.Settle(sequence=sequence, action=action, ack_tokens=held.token, error="why not")
        if delay_ms is not None:
            asked.delay_ms = delay_ms
        asked.credits.extend(self._give(1))
        self._add_result(asked, held)
        self.pipe.send(pb.WorkRequest(settle=asked))

    def _add_result(self, asked: pb.Settle, held: InHand) -> None:
        """Its tasks keep none."""

    def _ask(self, opening: pb.Open) -> None:
        """What it may be sent on this stream."""
        self._given = dict.fromkeys(self.queues, 0)
        opening.credits.extend(self._give(self.credit))

    def _give(self, tasks: int) -> list[pb.Credit]:
        """So many more of each queue."""
        for queue in self.queues:
            self._given[queue] += tasks
        return [pb.Credit(queue=queue, tasks=tasks) for queue in self.queues]

    def _spend(self, queue: str) -> bool:
        """One came; whether there was credit for it."""
        self._given[queue] -= 1
        return self._given[queue] >= 0

    def give_up_habits(self) -> None:
        """From now on it acknowledges at once, and has forgotten what it did not settle."""
        self.habits, self.credit = (), 1_000
        for held in self.in_hand.values():
            if not held.settled:
                self.settle(held, ACK)
        if self.pipe is not None:
            for credit in self._give(1_000):
                self.pipe.send(pb.WorkRequest(credit=credit))


def _fence_of(fences: bytes, place: int) -> tuple[int, ...]:
    """Empty: it has no ordering key."""
    fence: tuple[int, ...] = _FENCE.unpack_from(fences, place * _FENCE.size) if fences else ()
    return fence if any(fence) else ()
