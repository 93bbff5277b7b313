"""What other instances of the cluster may ask this one. It answers from its own machines and forwards nothing, so no
question goes in a circle; what it does not hold by the token that was named, it does not hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import zip_longest
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from timerd.core.protocol import OfferRows
from timerd.model.errors import NotStored, StoreUnknown
from timerd.model.partition import Partition
from timerd.model.registers import Control
from timerd.model.rows import RowGroup
from timerd.peer.v1 import peer_service_pb2 as pb
from timerd.services.holding.own_machines import OwnMachines
from timerd.services.peers.peer_wire import (
    OFFER_ANSWERS,
    TOKEN_HEADER,
    answer_message,
    asks_to_end,
    asks_to_move,
    hints_of,
    is_token,
    key_of,
    partition_of,
    rows_of,
)
from timerd.services.transport.decoding import Received, decoder
from timerd.services.transport.status import Context

SERVICE = pb.DESCRIPTOR.services_by_name["PeerService"].full_name
PeerMethod = Callable[[Any], Awaitable[Any]]
OnHint = Callable[[Partition, RowGroup, int], None]
OnAsked = Callable[[str, Iterable[bytes]], None]
OnTaskEnds = Callable[[Iterable[bytes]], None]
HandedOver = Callable[[Partition, Control | None], None]
Method = Callable[[Received[Any], Context], Awaitable[Message]]


class PeerService:
    """`name`: as it stands in control rows. `heard`: of rows that another instance has written; `handed_over`: of
    partitions that this instance may take now; `exact_ms`: engine time."""

    def __init__(
        self,
        name: str,
        token: str,
        own: OwnMachines,
        heard: OnHint,
        handed_over: HandedOver,
        exact_ms: Callable[[], float],
    ) -> None:
        self._exact_ms = exact_ms
        self._handed_over = handed_over
        self._name = name
        self._token = token
        self._own = own
        self._heard = heard
        self._asked: OnAsked = lambda _, __: None
        self._ended: OnTaskEnds = lambda _: None

    def on_ends(self, asked: OnAsked, ended: OnTaskEnds) -> None:
        """`asked`: which instance waits for the ends of which tasks. `ended`: of such tasks of this instance."""
        self._asked, self._ended = asked, ended

    def handler(self) -> grpc.GenericRpcHandler:
        """For `add_generic_rpc_handlers`."""
        answers: dict[str, tuple[PeerMethod, Any]] = {
            "Hint": (self._hint, pb.HintRequest),
            "Offer": (self._offer, pb.OfferRequest),
            "AskToEnd": (self._ask_to_end, pb.AskToEndRequest),
            "AskToMove": (self._ask_to_move, pb.AskToMoveRequest),
            "Look": (self._look, pb.LookRequest),
            "Recheck": (self._recheck, pb.RecheckRequest),
            "HandOver": (self._hand_over, pb.HandOverRequest),
            "AskForEnds": (self._ask_for_ends, pb.AskForEndsRequest),
            "TellEnds": (self._tell_ends, pb.TellEndsRequest),
            "ReadClock": (self._read_clock, pb.ReadClockRequest),
        }
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                name: grpc.unary_unary_rpc_method_handler(self._guarded(answer), decoder(kind), _serialized)
                for name, (answer, kind) in answers.items()
            },
        )

    def _guarded(self, answer: PeerMethod) -> Method:
        async def method(received: Received[Any], context: Context) -> Message:
            await admit(context, self._token)
            request = received.message
            try:
                reply: Message = await answer(request)
            except (NotStored, StoreUnknown) as error:
                # Who asked knows no more than before, and says so.
                await context.abort(grpc.StatusCode.ABORTED, str(error))
            return reply

        return method

    def _holds(self, holding: pb.Holding) -> bool:
        token = self._own.token(partition_of(holding.partition))
        return holding.holder == self._name and token is not None and holding.fencing_token in (0, token)

    async def _hint(self, request: pb.HintRequest) -> pb.HintResponse:
        for hinted in hints_of(request):
            self._heard(*hinted)
        return pb.HintResponse()

    async def _offer(self, request: pb.OfferRequest) -> pb.OfferResponse:
        """Who is named without a token is to be the next holder, and remembers what it will not take in."""
        offered = None
        partition = partition_of(request.holding.partition)
        is_next = not request.holding.fencing_token and self._own.is_acquiring(partition)
        if self._holds(request.holding) or (is_next and request.holding.holder == self._name):
            partition, rows, source = rows_of(request.rows)
            offered = self._own.offer(OfferRows(partition, rows, source, request.is_repeat))
        return pb.OfferResponse(answer=OFFER_ANSWERS[offered])

    async def _ask_to_end(self, request: pb.AskToEndRequest) -> pb.AskToEndResponse:
        answers = await self._own.ask_to_end(asks_to_end(request)) if self._holds(request.holding) else []
        # What was waited for meanwhile may have ended with the partition.
        if not self._holds(request.holding):
            return pb.AskToEndResponse(held=False)
        return pb.AskToEndResponse(held=True, answers=map(answer_message, answers))

    async def _ask_to_move(self, request: pb.AskToMoveRequest) -> pb.AskToMoveResponse:
        if not self._holds(request.holding):
            return pb.AskToMoveResponse(held=False)
        answers = [self._own.ask_to_move(ask) for ask in asks_to_move(request)]
        return pb.AskToMoveResponse(held=True, answers=map(answer_message, answers))

    async def _look(self, request: pb.LookRequest) -> pb.LookResponse:
        if not self._holds(request.holding):
            return pb.LookResponse(held=False)
        partition = partition_of(request.holding.partition)
        rows = [(key_of(row.key), row.lease_until_ms) for row in request.rows]
        in_hand = [self._own.is_in_hand(partition, *row) for row in rows]
        may_return = [self._own.may_return(partition, key) is not False for key, _ in rows]
        return pb.LookResponse(held=True, in_hand=in_hand, may_return=may_return)

    async def _recheck(self, request: pb.RecheckRequest) -> pb.RecheckResponse:
        self._own.recheck(partition_of(request.partition), request.digests)
        return pb.RecheckResponse()

    async def _hand_over(self, request: pb.HandOverRequest) -> pb.HandOverResponse:
        controls = map(Control.from_bytes, request.controls)
        for message, control in zip_longest(request.partitions, controls):
            self._handed_over(partition_of(message), control)
        return pb.HandOverResponse()

    async def _ask_for_ends(self, request: pb.AskForEndsRequest) -> pb.AskForEndsResponse:
        self._asked(request.instance, request.digests)
        return pb.AskForEndsResponse()

    async def _tell_ends(self, request: pb.TellEndsRequest) -> pb.TellEndsResponse:
        self._ended(request.digests)
        return pb.TellEndsResponse()

    async def _read_clock(self, _request: pb.ReadClockRequest) -> pb.ReadClockResponse:
        return pb.ReadClockResponse(engine_time_ms=self._exact_ms())


async def admit(context: Context, token: str) -> None:
    """Ends the call of a caller that is not of this cluster."""
    shown = dict(context.invocation_metadata() or ()).get(TOKEN_HEADER)
    if not is_token(shown, token):
        await context.abort(
            grpc.StatusCode.PERMISSION_DENIED,
            "Only instances of the same cluster may call this service; callers and workers use timerd.v1.",
        )


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()
