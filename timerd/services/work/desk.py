"""The seams around delivery: what it writes to, who else takes part in its rounds, and what a Work stream is served by.

A worker is served by Delivery itself where there is one instance, and by its Home, which asks Delivery and the other
instances, where there are several.
"""

from __future__ import annotations

from typing import Any, Protocol

import grpc.aio

from timerd.core.settlement import Action
from timerd.services.work.work_stream import WorkStream
from timerd.v1 import work_service_pb2 as pb


class Outlet(Protocol):
    """Where the deliveries and confirmations of one worker go."""

    number: int
    closing: bool

    def push(self, response: pb.WorkResponse, size_bytes: int = ...) -> None: ...

    def block_if_full(self) -> bool:
        """True once when too much waits; Delivery hears of it when there is room again."""
        ...

    def owe(self) -> None:
        """A confirmation will come."""
        ...

    def confirm(self, confirmed: pb.SettleConfirmed) -> None: ...


class Abroad(Protocol):
    """The other instances, as the pump sees them."""

    @property
    def is_busy(self) -> bool:
        """Whether deliveries of other instances are with workers of this one."""
        ...

    def before(self, now_ms: int) -> None:
        """A round begins: credit is lent before the own tasks use it up."""
        ...

    def after(self, now_ms: int) -> float:
        """What was due is sent as far as there is credit. Returns when to come again."""
        ...

    def drain(self) -> None:
        """The instance goes away: no credit is lent or kept any more."""
        ...


class Desk(Protocol):
    """One call for each kind of request of a worker."""

    @property
    def server(self) -> str: ...

    def stream(self, context: grpc.aio.ServicerContext[Any, Any]) -> WorkStream: ...

    def join(self, stream: WorkStream, namespace: str, lease_ms: int) -> None: ...

    def credit(self, stream: WorkStream, queue: str, tasks: int) -> None: ...

    def may_serve(self, stream: WorkStream, queue: str, most: int) -> bool: ...

    def settle(
        self, stream: WorkStream, sequence: int, action: Action, tokens: bytes, delay_ms: int | None, error: str
    ) -> None: ...

    def extend(self, stream: WorkStream, tokens: bytes) -> list[bytes]:
        """Tokens that are lost, as far as that is known at once."""
        ...

    def resume(self, stream: WorkStream, tokens: bytes) -> list[bytes]: ...

    def closing(self, stream: WorkStream) -> None: ...

    def left(self, stream: WorkStream) -> None: ...
