"""What an instance answers the others about rules, and about the permits of limits."""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf.message import Message

from timerd.core.taken import QueueKey
from timerd.model.named_limits import LimitName, read_limit
from timerd.model.regulations import read_regulation
from timerd.peer.v1 import regulation_peer_pb2 as pb
from timerd.services.peers.peer_service import admit
from timerd.services.regulation.borrowing import Borrowing
from timerd.services.regulation.regulating import Regulating
from timerd.services.transport.decoding import Received, decoder
from timerd.services.transport.status import Context

SERVICE = pb.DESCRIPTOR.services_by_name["RegulationPeerService"].full_name


class RegulationPeerService:
    """Answers the other instances, by what `regulating` goes by."""

    def __init__(self, token: str, regulating: Regulating) -> None:
        self._token = token
        self._regulating = regulating

    def handler(self) -> grpc.GenericRpcHandler:
        """For `add_generic_rpc_handlers`."""
        methods: dict[str, tuple[Any, type[Message]]] = {
            "TellRules": (self._tell_rules, pb.TellRulesRequest),
            "TellLimit": (self._tell_limit, pb.TellLimitRequest),
            "Borrow": (self._borrow, pb.BorrowRequest),
            "State": (self._state, pb.StateRequest),
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
