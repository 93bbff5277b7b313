"""What an instance answers the others about rules, and about the permits of limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import Message

from timerd.core.taken import QueueKey
from timerd.model.named_limits import LimitName, read_limit
from timerd.model.regulations import read_regulation
from timerd.peer.v1 import regulation_peer_pb2 as pb
from timerd.services.engine.ordering import Ordering
from timerd.services.peers.peer_service import admit
from timerd.services.regulation.borrowing import Borrowing
from timerd.services.regulation.key_borrowing import KeyBorrowing
from timerd.services.regulation.key_calls import kept_here
from timerd.services.regulation.regulating import Regulating
from timerd.services.transport.decoding import Received, decoder
from timerd.services.transport.status import Context

SERVICE = pb.DESCRIPTOR.services_by_name["RegulationPeerService"].full_name


class RegulationPeerService:
    """Answers the other instances, by what `regulating` goes by, and of the ordering keys that are kept here."""

    def __init__(self, token: str, regulating: Regulating, ordering: Ordering, now_ms: Callable[[], int]) -> None:
        self._token = token
        self._regulating = regulating
        self._ordering = ordering
        self._now_ms = now_ms

    def handler(self) -> grpc.GenericRpcHandler:
        """For `add_generic_rpc_handlers`."""
        methods: dict[str, tuple[Any, type[Message]]] = {
            "TellRules": (self._tell_rules, pb.TellRulesRequest),
            "TellLimit": (self._tell_limit, pb.TellLimitRequest),
            "Borrow": (self._borrow, pb.BorrowRequest),
            "State": (self._state, pb.StateRequest),
            "BorrowKeys": (self._borrow_keys, pb.BorrowKeysRequest),
            "StateKeys": (self._state_keys, pb.StateKeysRequest),
            "Draw": (self._draw, pb.DrawRequest),
            "DrawKeys": (self._draw_keys, pb.DrawKeysRequest),
            "ListKept": (self._list_kept, pb.ListKeptRequest),
            "FindBefore": (self._find_before, pb.FindBeforeRequest),
        }
        handlers: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(method, decoder(kind), lambda reply: reply.SerializeToString())
            for name, (method, kind) in methods.items()
        }
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    @property
    def _borrowing(self) -> Borrowing:
        assert self._regulating.borrowing is not None, "an instance with others lends"
        return self._regulating.borrowing

    @property
    def _key_borrowing(self) -> KeyBorrowing:
        assert self._regulating.key_borrowing is not None, "an instance with others lends"
        return self._regulating.key_borrowing

    async def _tell_rules(self, received: Received[pb.TellRulesRequest], context: Context) -> pb.TellRulesResponse:
        await admit(context, self._token)
        request = received.message
        self._regulating.heard(QueueKey(request.namespace, request.queue), read_regulation(request.rules))
        return pb.TellRulesResponse()

    async def _tell_limit(self, received: Received[pb.TellLimitRequest], context: Context) -> pb.TellLimitResponse:
        await admit(context, self._token)
        request = received.message
        self._regulating.heard_limit(LimitName(request.namespace, request.name), read_limit(request.limit))
        return pb.TellLimitResponse()

    async def _borrow(self, received: Received[pb.BorrowRequest], context: Context) -> pb.BorrowResponse:
        await admit(context, self._token)
        return await self._borrowing.borrow(received.message)

    async def _state(self, received: Received[pb.StateRequest], context: Context) -> pb.StateResponse:
        await admit(context, self._token)
        return self._borrowing.state(received.message)

    async def _borrow_keys(self, received: Received[pb.BorrowKeysRequest], context: Context) -> pb.BorrowKeysResponse:
        await admit(context, self._token)
        return await self._key_borrowing.borrow(received.message)

    async def _state_keys(self, received: Received[pb.StateKeysRequest], context: Context) -> pb.StateKeysResponse:
        await admit(context, self._token)
        return self._key_borrowing.state(received.message)

    async def _draw(self, received: Received[pb.DrawRequest], context: Context) -> pb.DrawResponse:
        await admit(context, self._token)
        assert self._regulating.drawing is not None, "an instance with others hands out tokens"
        return await self._regulating.drawing.draw(received.message)

    async def _draw_keys(self, received: Received[pb.DrawKeysRequest], context: Context) -> pb.DrawKeysResponse:
        await admit(context, self._token)
        assert self._regulating.key_drawing is not None, "an instance with others hands out tokens"
        return await self._regulating.key_drawing.draw(received.message)

    async def _list_kept(self, received: Received[pb.ListKeptRequest], context: Context) -> pb.ListKeptResponse:
        await admit(context, self._token)
        request = received.message
        kept = kept_here(self._ordering, QueueKey(request.namespace, request.queue), request.limit, self._now_ms())
        return pb.ListKeptResponse(keys=kept.keys, halted=kept.halted)

    async def _find_before(self, received: Received[pb.FindBeforeRequest], context: Context) -> pb.FindBeforeResponse:
        await admit(context, self._token)
        request = received.message
        queue = QueueKey(request.namespace, request.queue)
        before = self._ordering.before(queue, request.ordering_key, request.digest, self._now_ms())
        return pb.FindBeforeResponse(task_id=str(before.task or ""), halted=before.is_halted)
