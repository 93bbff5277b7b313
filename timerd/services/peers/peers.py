"""Calls to the other instances: each has an answer or a `Silent` in time, which is two seconds where a caller waits;
hints go in batches, or are lost.

Who was silent is not called again for a moment, so that a call that speaks to many partitions of a holder that is gone
waits for it once. Its hints go by a second way, where there is one, until it answers again. Nothing that is lost here
is needed: rows that were hinted are found by the holder's next sweep.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
import grpc.aio
from google.protobuf.message import Message

from timerd.config import TlsConfig
from timerd.core.partition import Offered
from timerd.core.protocol import AskToEnd, AskToMove, HolderAnswer, OfferRows
from timerd.model.errors import StartupError
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.registers import Control
from timerd.model.settle import Outcome
from timerd.peer.v1 import peer_service_pb2 as pb
from timerd.peer.v1.peer_service_pb2_grpc import PeerServiceStub
from timerd.services.background import begin
from timerd.services.peers.peer_wire import (
    OFFERED,
    TOKEN_HEADER,
    HintedRows,
    Holder,
    answers_of,
    ended_message,
    holding_message,
    key_message,
    partition_message,
    rows_message,
)
from timerd.services.peers.second_way import OtherWay
from timerd.services.transport.decoding import MAX_WIRE_BYTES
from timerd.services.transport.tls import peer_credentials, stamp_of
from timerd.services.transport.watched_files import Stamp

log = logging.getLogger(__name__)
DEADLINE_S = 2.0
# Of what no caller waits for: that a late ack has ended a task, and that a partition is handed over. Given up after two
# seconds it would be said again to one who is only slow, and make it slower.
PATIENT_S = 10.0
SILENCE_S = 0.5
# Of hints: in one call, and waiting for one address.
BATCH_BYTES = 1 << 20
WAITING_BYTES = 8 << 20
# Notices under way; they are small, and so few that more of them mean that somebody hangs.
MOST_NOTICES = 256
OPTIONS = (
    ("grpc.max_receive_message_length", MAX_WIRE_BYTES),
    ("grpc.max_send_message_length", -1),
    # An instance that comes back is called again soon.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # As in the server (services/server.py): a cut is noticed within 10 s, and an overrun machine is no cut.
    ("grpc.keepalive_time_ms", 3_400),
    ("grpc.keepalive_timeout_ms", 6_500),
    ("grpc.http2.ping_timeout_ms", 6_500),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 512 << 10),
)
WITHOUT_TLS = TlsConfig()
GONE = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})


Connect = Callable[[str], grpc.aio.Channel]


class Silent(Exception):
    """No answer in time: whether the other side did what it was asked for is not known."""


@dataclass(slots=True)
class Outbox:
    """Hints that wait for one address."""

    waiting: deque[HintedRows] = field(default_factory=deque)
    waiting_bytes: int = 0
    is_sending: bool = False

    def put(self, hinted: HintedRows) -> bool:
        """False: it is full."""
        size_bytes = wire_bytes(hinted)
        if self.waiting and self.waiting_bytes + size_bytes > WAITING_BYTES:
            return False
        self.waiting.append(hinted)
        self.waiting_bytes += size_bytes
        return True

    def take(self) -> list[HintedRows]:
        """About as much as one call takes; at least one."""
        taken: list[HintedRows] = []
        taken_bytes = 0
        while self.waiting and (not taken or taken_bytes + wire_bytes(self.waiting[0]) <= BATCH_BYTES):
            taken.append(self.waiting.popleft())
            taken_bytes += wire_bytes(taken[-1])
        self.waiting_bytes -= taken_bytes
        return taken


def wire_bytes(hinted: HintedRows) -> int:
    """Of these rows, without the rest of the arena that they share."""
    columns = hinted.rows.columns
    return int(columns["length"].sum()) + int(columns.nbytes)


class Peers:
    """Of one instance. `other_way`: for hints to those who do not answer. `connect`: how an address is reached, where
    that is not by gRPC. Raises StartupError where its certificate cannot be used."""

    def __init__(
        self,
        token: str,
        tls: TlsConfig = WITHOUT_TLS,
        other_way: OtherWay | None = None,
        connect: Connect | None = None,
    ) -> None:
        self.dropped_hints = 0
        self.metadata = ((TOKEN_HEADER, token),)
        self._tls = tls
        self._credentials = peer_credentials(tls)
        self._channels: dict[str, grpc.aio.Channel] = {}
        # Of the files that each was made with.
        self._stamps: dict[str, Stamp] = {}
        self._outboxes: dict[str, Outbox] = {}
        self._silent_until_s: dict[str, float] = {}
        self._notices: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._other_way = other_way
        self._asked_whether_back: set[str] = set()
        self._connect = connect or self._connect_by_grpc

    def channel(self, address: str) -> grpc.aio.Channel:
        """Kept for the next call."""
        channel = self._channels.get(address)
        if channel is not None and self._is_outdated(address, channel):
            self._spawn(self._hang_up(channel))
            channel = None
        if channel is None:
            channel = self._channels[address] = self._connect(address)
        return channel

    def _is_outdated(self, address: str, channel: grpc.aio.Channel) -> bool:
        """A connection that broke comes back with the certificate that its channel began with, however old it is."""
        if address not in self._stamps or channel.get_state() is grpc.ChannelConnectivity.READY:
            return False
        return self._stamps[address] != stamp_of(self._tls)

    def _connect_by_grpc(self, address: str) -> grpc.aio.Channel:
        """By the files as they are now: they may have been renewed."""
        if self._credentials is None:
            return grpc.aio.insecure_channel(address, options=OPTIONS)
        self._stamps[address] = stamp_of(self._tls)
        try:
            self._credentials = peer_credentials(self._tls) or self._credentials
        except StartupError as error:
            log.error("Other instances are called with the certificate of before. %s", error)
        name = self._tls.peer_name
        options = (*OPTIONS, ("grpc.ssl_target_name_override", name)) if name else OPTIONS
        return grpc.aio.secure_channel(address, self._credentials, options=options)

    def keep(self, addresses: Iterable[str]) -> None:
        """Hangs up on all others: instances come and go, each with an address of its own."""
        for address in sorted(self._channels.keys() - set(addresses)):
            for forgotten in (self._outboxes, self._silent_until_s, self._stamps):
                forgotten.pop(address, None)
            self._spawn(self._hang_up(self._channels.pop(address)))

    async def _hang_up(self, channel: grpc.aio.Channel) -> None:
        """Calls under way have their time."""
        await channel.close(DEADLINE_S)

    async def close(self) -> None:
        self._is_closed = True
        for notice in self._notices:
            notice.cancel()
        await asyncio.gather(*self._notices, return_exceptions=True)
        for channel in self._channels.values():
            await channel.close()
        await self.close_other_way()

    async def close_other_way(self) -> None:
        if self._other_way is not None:
            await self._other_way.close()

    def hint_messages(self) -> Mapping[str, int]:
        """Messages that went by the other way, by what became of them."""
        return self._other_way.counts() if self._other_way is not None else {}

    # -- questions ------------------------------------------------------------------------------------------------

    async def offer(self, holder: Holder, request: OfferRows) -> Offered | None:
        """None: it does not hold the partition, as in all of these."""
        message = pb.OfferRequest(
            holding=holding_message(request.partition, holder),
            rows=rows_message(HintedRows(request.partition, request.rows, request.source)),
            is_repeat=request.is_repeat,
        )
        reply = cast(pb.OfferResponse, await self._call(holder.address, "Offer", message))
        return OFFERED.get(reply.answer, Offered.SILENT)

    async def ask_to_end(
        self, holder: Holder, partition: Partition, asks: Sequence[AskToEnd]
    ) -> list[HolderAnswer] | None:
        rows = map(ended_message, asks)
        message = pb.AskToEndRequest(holding=holding_message(partition, holder), rows=rows)
        is_late_ack = all(ask.outcome is Outcome.ACKED for ask in asks)
        deadline_s = PATIENT_S if is_late_ack else DEADLINE_S
        reply = cast(pb.AskToEndResponse, await self._call(holder.address, "AskToEnd", message, deadline_s))
        return answers_of(reply.answers) if reply.held else None

    async def ask_to_move(
        self, holder: Holder, partition: Partition, asks: Sequence[AskToMove]
    ) -> list[HolderAnswer] | None:
        keys = [key_message(ask.key) for ask in asks]
        message = pb.AskToMoveRequest(holding=holding_message(partition, holder), keys=keys)
        reply = cast(pb.AskToMoveResponse, await self._call(holder.address, "AskToMove", message))
        return answers_of(reply.answers) if reply.held else None

    async def in_hand(
        self, holder: Holder, partition: Partition, rows: Sequence[tuple[RowKey, int]]
    ) -> Sequence[bool] | None:
        reply = await self._look(holder, partition, rows)
        return reply.in_hand if reply.held else None

    async def may_return(self, holder: Holder, partition: Partition, key: RowKey) -> bool | None:
        """A holder of an earlier release says only what is in hand."""
        reply = await self._look(holder, partition, [(key, 0)])
        return any((*reply.may_return, *reply.in_hand)) if reply.held else None

    async def _look(self, holder: Holder, partition: Partition, rows: Sequence[tuple[RowKey, int]]) -> pb.LookResponse:
        looked_at = [pb.LookedAtRow(key=key_message(key), lease_until_ms=lease_ms) for key, lease_ms in rows]
        message = pb.LookRequest(holding=holding_message(partition, holder), rows=looked_at)
        return cast(pb.LookResponse, await self._call(holder.address, "Look", message))

    async def ask_for_ends(self, address: str, own_name: str, digests: Sequence[bytes]) -> None:
        """It tells this instance when it hears that one of the tasks has ended."""
        await self._call(address, "AskForEnds", pb.AskForEndsRequest(instance=own_name, digests=digests))

    async def read_clock(self, address: str) -> float | None:
        """None: no answer."""
        try:
            reply = cast(pb.ReadClockResponse, await self._call(address, "ReadClock", pb.ReadClockRequest()))
        except Silent:
            return None
        return reply.engine_time_ms

    async def _call(self, address: str, name: str, message: Message, deadline_s: float = DEADLINE_S) -> Message:
        """Raises Silent."""
        if self._silent_until_s.get(address, 0.0) > asyncio.get_running_loop().time():
            raise Silent(f"{address} did not answer a moment ago.")
        return await self._ask(address, name, message, deadline_s)

    async def _ask(self, address: str, name: str, message: Message, deadline_s: float) -> Message:
        """Also one who was silent a moment ago. What still asks when this instance has hung up has no answer."""
        if self._is_closed:
            raise Silent(f"{address} is not asked any more: this instance has stopped.")
        stub = PeerServiceStub(self.channel(address))
        try:
            reply: Message = await getattr(stub, name)(message, timeout=deadline_s, metadata=self.metadata)
        except grpc.aio.AioRpcError as error:
            if error.code() in GONE:
                self._silent_until_s[address] = asyncio.get_running_loop().time() + SILENCE_S
            log.warning("%s did not answer %s: %s (%s)", address, name, error.code().name, error.details())
            raise Silent(f"{address} does not answer {name}.") from error
        self._silent_until_s.pop(address, None)
        return reply

    # -- hints and notices: nobody waits for these ----------------------------------------------------------------

    def hint(self, address: str, hinted: HintedRows) -> None:
        box = self._outboxes.setdefault(address, Outbox())
        if not box.put(hinted):
            self.dropped_hints += 1
        elif not box.is_sending:
            box.is_sending = True
            self._spawn(self._send(address, box))

    async def _send(self, address: str, box: Outbox) -> None:
        """What comes meanwhile goes with the next call."""
        try:
            while box.waiting:
                batch = box.take()
                if not await self._is_told(address, pb.HintRequest(rows=map(rows_message, batch))):
                    self.dropped_hints += len(batch)
        finally:
            box.is_sending = False

    async def _is_told(self, address: str, hints: pb.HintRequest) -> bool:
        """Who was silent is told by the other way at once: a hint that first waits for an answer comes too late."""
        if self._other_way is not None and address in self._silent_until_s:
            self._ask_whether_back(address)
        else:
            try:
                await self._call(address, "Hint", hints)
                return True
            except Silent:
                if self._other_way is None:
                    return False
        # So that others have their turn, however many hints wait.
        await asyncio.sleep(0)
        return self._other_way.send(address, hints)

    def _ask_whether_back(self, address: str) -> None:
        if address not in self._asked_whether_back:
            self._asked_whether_back.add(address)
            self._spawn(self._until_asked(address))

    async def _until_asked(self, address: str) -> None:
        """With no hint at all. The end of its silence is waited for."""
        try:
            await asyncio.sleep(self._silent_until_s.get(address, 0.0) - asyncio.get_running_loop().time())
            await self._call(address, "Hint", pb.HintRequest())
        except Silent:
            log.debug("%s is still silent", address)
        finally:
            self._asked_whether_back.discard(address)

    def recheck(self, address: str, partition: Partition, digests: Sequence[bytes]) -> None:
        message = pb.RecheckRequest(partition=partition_message(partition), digests=digests)
        self._tell(self._call(address, "Recheck", message))

    def tell_ends(self, address: str, digests: Sequence[bytes]) -> None:
        self._tell(self._call(address, "TellEnds", pb.TellEndsRequest(digests=digests)))

    def hand_over(self, address: str, partition: Partition, control: Control | None) -> None:
        """It is the other's from now on. Said at once: what is due there waits for it."""
        controls = [control.to_bytes()] if control is not None else []
        message = pb.HandOverRequest(partitions=[partition_message(partition)], controls=controls)
        self._tell(self._ask(address, "HandOver", message, PATIENT_S))

    def _tell(self, call: Coroutine[Any, Any, Message]) -> None:
        if len(self._notices) < MOST_NOTICES:
            self._spawn(self._told(call))
        else:
            call.close()

    async def _told(self, call: Coroutine[Any, Any, Message]) -> None:
        try:
            await call
        except Silent as silent:
            log.info("%s It will see for itself.", silent)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = begin(work, "notices")
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)
