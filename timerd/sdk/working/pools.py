"""Pools: slots that the handlers of several queues share.

The server fills a free slot with the task that is first among all queues of the pool. Nothing is read ahead: what waits
in a worker is no other worker's, and no other queue's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from timerd.sdk.values import Span, queue_of_decorator
from timerd.sdk.working.handlers import Handler
from timerd.sdk.working.time_limits import CallSpans, spans_of

AnyHandler = TypeVar("AnyHandler", bound=Handler)


class SharedSlots(NamedTuple):
    """How many deliveries of all queues of the pool together a worker has in hand at most."""

    name: str
    slots: int


class SlotCredit:
    """As ReadAhead, of a lane in a pool: it has no credit of its own that could change."""

    def __init__(self, slots: int) -> None:
        self.tasks = slots

    def ran(self, took_s: float) -> int:
        """A handler was done with one task."""
        return 0

    def restart(self) -> None:
        """Nothing was read ahead."""


class Register(Protocol):
    """Registers a handler of a queue in a pool."""

    def __call__(
        self, handler: Handler, queue: str, pool: SharedSlots, spans: CallSpans, isolation: str, *, shield: bool
    ) -> None:
        """Raises as `Worker.on`."""
        ...


class Pool:
    """A pool is slots of a worker that several queues share; `worker.pool(...)` makes one.

    Where a slot is free, it gets the task that is first among all of its queues: by priority, by how long it has
    waited, and by how few slots there are for its queue. At no time more handlers run than there are slots.

    Args:
        shared: its name, and how many slots it has.
        register: what registers a handler with the worker.
    """

    def __init__(self, shared: SharedSlots, register: Register) -> None:
        self._shared = shared
        self._register = register

    @property
    def name(self) -> str:
        """The name of the pool."""
        return self._shared.name

    @property
    def slots(self) -> int:
        """How many handlers run at a time, of all queues together."""
        return self._shared.slots

    def on(
        self,
        queue: str,
        *,
        timeout: Span | None = None,
        stall_timeout: Span | None = None,
        isolation: str = "",
        shield: bool = False,
    ) -> Callable[[AnyHandler], AnyHandler]:
        """The decorator registers a handler for the tasks of a queue, in the slots of the pool: `@pool.on("pdf")`.

        Args:
            queue: the queue; a worker has one handler for each, in one pool or in none.
            timeout: how long a call may take, as for `Worker.on`. A plain handler that goes on keeps its slot.
            stall_timeout: as for `Worker.on`.
            isolation: as for `Worker.on`.
            shield: as for `Worker.on`.

        Raises:
            InvalidTask, TimerdError: as for `Worker.on`.
        """
        queue, spans = queue_of_decorator(queue, "on"), spans_of(timeout, stall_timeout)

        def register(handler: AnyHandler) -> AnyHandler:
            self._register(handler, queue, self._shared, spans, isolation, shield=shield)
            return handler

        return register
