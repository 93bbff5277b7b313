"""The port `FrontDoor`: where the calls of gRPC come in.

Behind each door stand the same handlers and interceptors, so what is allowed, refused and answered is decided once. A
door acknowledges what they have said, and nothing else: it is outside of every guarantee.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import grpc.aio
from google.protobuf.message import Message

from timerd.config import ServerConfig
from timerd.services.transport.listen import Address
from timerd.services.transport.local_calls import LocalCalls
from timerd.services.transport.passed_on import PassedOn
from timerd.v1.task_pb2 import Problem

GRPCIO, NATIVE = "grpcio", "native"
CallOutcome: TypeAlias = Message | Problem
# Takes the bytes of a request, and who is told its outcome; None: it was given up without one.
AsksTogether: TypeAlias = Callable[[bytes, Callable[[CallOutcome | None], None]], None]


class ServedCalls(NamedTuple):
    """What a door serves. `server` has all handlers, and listens nowhere yet; `passed_on` is the outermost of its
    interceptors, for a door that stands before it. `calls` has the unary handlers, whose paths are `methods`, for calls
    that came by another way. `together` are those of them that are carried out together where they came together,
    without the interceptors; none where these have something to ask."""

    config: ServerConfig
    server: grpc.aio.Server
    passed_on: PassedOn
    calls: LocalCalls
    methods: Sequence[str]
    together: Mapping[str, AsksTogether]


class FrontDoor(Protocol):
    """`name` is what operators see of it."""

    @property
    def name(self) -> str: ...

    async def open(self, address: Address) -> Address:
        """Calls are answered from now on; returns the address with the port that was taken. Raises StartupError."""
        ...

    async def close(self, grace_s: float) -> None:
        """Takes nothing new, lets what is in hand finish within the grace, then hangs up."""
        ...
