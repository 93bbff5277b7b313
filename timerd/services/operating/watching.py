"""Watch: deliveries of all instances as they happen, for people.

Each instance tells of what it sends itself; the one that is asked joins them. Nobody is waited for: a caller that reads
slowly has lines left out, and an instance that is not heard is named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Any, NamedTuple

from timerd.core.dispatch import MOST_READERS, Tail, TailKind, TailLine, TailReader
from timerd.model.errors import Invalid, Overloaded, Unavailable
from timerd.peer.v1 import inspect_service_pb2 as peer_pb
from timerd.services.background import begin
from timerd.services.calls.fields import namespace_of, queue_of
from timerd.services.calls.replies import timestamp
from timerd.services.holding.membership import Membership
from timerd.services.operating.colleagues import Colleagues
from timerd.v1 import watch_pb2 as pb

DEFAULT_PER_SECOND, MOST_PER_SECOND = 50, 1_000
# Of other instances, while their caller does not read.
MOST_WAITING = 1_000
# What happens within it is told together, and how often it is said that nothing does.
GATHER_S, QUIET_S = 0.1, 5.0
# An instance that says nothing for so long more is silent; it is asked again after the pause.
MORE_S, AGAIN_S = 3.0, 2.0
WriteMessage = Callable[[Any], Awaitable[None]]


class WatchFilter(NamedTuple):
    """What is watched. `queue` empty: all of the namespace."""

    namespace: str
    queue: str
    per_second: int


class Telling:
    """What one caller is told: of this instance by `reader`, of others by `heard`."""

    def __init__(self, chosen: WatchFilter, name: str) -> None:
        self.changed = asyncio.Event()
        self.reader = TailReader(*chosen, self.changed.set)
        self._name = name
        self._heard: list[pb.DeliveryEvent] = []
        self._left_out = 0
        self._silent: set[str] = set()

    def heard(self, name: str, said: peer_pb.WatchResponse) -> None:
        room = MOST_WAITING - len(self._heard)
        self._heard += said.events[:room]
        self._left_out += said.left_out + max(0, len(said.events) - room)
        self._silent.discard(name)
        if said.events or said.left_out:
            self.changed.set()

    def is_silent(self, name: str) -> None:
        self._silent.add(name)
        self.changed.set()

    def is_gone(self, name: str) -> None:
        """It is no instance of the cluster any more."""
        self._silent.discard(name)

    def message(self) -> pb.WatchResponse:
        """What came since the one before."""
        lines, left_out = self.reader.take()
        heard, self._heard = self._heard, []
        left_out, self._left_out = left_out + self._left_out, 0
        own = [_event(line, self._name) for line in lines]
        return pb.WatchResponse(events=[*heard, *own], left_out=left_out, silent=sorted(self._silent))


class Watching:
    """Of one instance. `colleagues` None: there are no others."""

    def __init__(self, tail: Tail, membership: Membership, colleagues: Colleagues | None) -> None:
        self._tail = tail
        self._membership = membership
        self._colleagues = colleagues
        self._open: set[Telling] = set()
        self._is_stopped = False

    async def watch(self, request: pb.WatchRequest, write: WriteMessage) -> None:
        """Writes messages until its caller goes. Raises Invalid, Overloaded; Unavailable when the server goes away."""
        chosen = _chosen(request)
        names = {self._membership.name, *self._membership.present()}
        each = chosen._replace(per_second=-(-chosen.per_second // len(names)))
        with self._one(each) as telling, self._others(each, telling) as look:
            await self._tell(telling, look, write, telling.message)

    async def watch_here(self, request: peer_pb.WatchRequest, write: WriteMessage) -> None:
        """As `watch`, of this instance alone, for another one, which has judged what was asked."""
        if not request.namespace or not request.max_per_second:
            raise Invalid("It is not said what is watched: fill namespace and max_per_second.", "namespace")
        with self._one(WatchFilter(request.namespace, request.queue, request.max_per_second)) as telling:

            def message() -> peer_pb.WatchResponse:
                said = telling.message()
                return peer_pb.WatchResponse(events=said.events, left_out=said.left_out)

            await self._tell(telling, lambda: None, write, message)

    def stop(self) -> None:
        """The server is going away: those who watch are told so."""
        self._is_stopped = True
        for telling in self._open:
            telling.changed.set()

    @contextmanager
    def _one(self, chosen: WatchFilter) -> Iterator[Telling]:
        if not self._tail.has_room:
            raise Overloaded(
                f"{MOST_READERS} callers watch this instance, and more are not taken: close one, or ask another "
                "instance.",
                "TOO_MANY_WATCHERS",
                retry_after_ms=1_000,
            )
        telling = Telling(chosen, self._membership.name)
        self._tail.join(telling.reader)
        self._open.add(telling)
        try:
            yield telling
        finally:
            self._open.discard(telling)
            self._tail.leave(telling.reader)

    async def _tell(
        self, telling: Telling, look: Callable[[], None], write: WriteMessage, message: Callable[[], object]
    ) -> None:
        while not self._is_stopped:
            look()
            await write(message())
            await asyncio.sleep(GATHER_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(telling.changed.wait(), QUIET_S)
            telling.changed.clear()
        raise Unavailable("The server is going away: connect again in a moment.", "DRAINING", retry_after_ms=1_000)

    # -- the other instances --------------------------------------------------------------------------------------

    @contextmanager
    def _others(self, chosen: WatchFilter, telling: Telling) -> Iterator[Callable[[], None]]:
        """What is given looks who is there now: instances come and go."""
        hearing: dict[str, asyncio.Task[None]] = {}
        colleagues = self._colleagues

        def look() -> None:
            if colleagues is None:
                return
            present = set(self._membership.present()) - {self._membership.name}
            for name in hearing.keys() - present:
                hearing.pop(name).cancel()
                telling.is_gone(name)
            for name in present - hearing.keys():
                hearing[name] = begin(self._hear(colleagues, name, chosen, telling), "watching")

        try:
            yield look
        finally:
            for task in hearing.values():
                task.cancel()

    async def _hear(self, colleagues: Colleagues, name: str, chosen: WatchFilter, telling: Telling) -> None:
        """As long as it is there, again whenever it is silent."""
        request = peer_pb.WatchRequest(namespace=chosen.namespace, queue=chosen.queue, max_per_second=chosen.per_second)
        while True:
            with suppress(TimeoutError):
                async with aclosing(colleagues.watch(self._membership.address_of(name), request)) as said:
                    while (each := await asyncio.wait_for(anext(said, None), QUIET_S + MORE_S)) is not None:
                        telling.heard(name, each)
            telling.is_silent(name)
            await asyncio.sleep(AGAIN_S)


def _chosen(request: pb.WatchRequest) -> WatchFilter:
    """Raises Invalid."""
    if request.max_per_second > MOST_PER_SECOND:
        raise Invalid(
            f"max_per_second is {request.max_per_second:,}: at most {MOST_PER_SECOND:,} are told in a second, lower "
            "it, or watch one queue.",
            "max_per_second",
        )
    queue = queue_of(request.queue, "queue") if request.queue else ""
    return WatchFilter(namespace_of(request.namespace), queue, request.max_per_second or DEFAULT_PER_SECOND)


def _event(line: TailLine, instance: str) -> pb.DeliveryEvent:
    event = pb.DeliveryEvent(
        time=timestamp(line.at_ms),
        kind=pb.DeliveryEventKind.Name(line.kind),
        queue=line.queue.queue,
        task_id=str(line.task_id),
        due_time=timestamp(line.due_ms),
        lateness_ms=max(0, line.sent_ms - line.due_ms),
        attempt=line.attempt,
        worker=line.worker,
        instance=instance,
    )
    if line.kind is not TailKind.SENT:
        event.took_ms = max(0, line.at_ms - line.sent_ms)
    if line.next_ms:
        event.next_attempt_time.CopyFrom(timestamp(line.next_ms))
    return event
