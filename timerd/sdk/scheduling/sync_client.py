"""`SyncClient`: the asyncio client's calls without await."""

from __future__ import annotations

import weakref
from collections.abc import Coroutine
from functools import cached_property
from typing import Any, Self, TypeVar, Unpack

from timerd.sdk.scheduling.async_client import Client
from timerd.sdk.scheduling.cycles import SyncCycles
from timerd.sdk.scheduling.limits import SyncLimits
from timerd.sdk.scheduling.queues import SyncQueues
from timerd.sdk.scheduling.schedules import SyncSchedules
from timerd.sdk.scheduling.sync_twin import SHARED_LOOP, Caller, blocking, iterating
from timerd.sdk.transport import DEFAULT_TARGET, ClientKeywords, ConnectOptions
from timerd.sdk.values import check_keywords

Awaited = TypeVar("Awaited")


class SyncClient:
    """A sync client makes the calls of `Client` without await, from any number of threads.

    Use it as `with SyncClient() as client:`, or call `close` in the end. Its methods, errors and arguments are those of
    `Client`; `list`, `dead_letters`, `audited` and `watch` are plain iterators. A call inside of its own `progress`
    raises TimerdError with the reason WOULD_DEADLOCK.

    Args:
        target: the address of the server as HOST:PORT, or a `ConnectOptions`. Default 127.0.0.1:7400.
        options: the other fields of `ConnectOptions` as keywords, as for `Client`.
    """

    def __init__(self, target: str | ConnectOptions = DEFAULT_TARGET, **options: Unpack[ClientKeywords]) -> None:
        check_keywords("SyncClient", options, ClientKeywords.__optional_keys__)
        self._client = Client(target, **options)
        self._caller = Caller(self._client)
        self._abandoned = weakref.finalize(self, SHARED_LOOP.abandon, self._client)
        # The end of the program is the loop's own business.
        self._abandoned.atexit = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The call closes the client for good; calls of other threads that still wait for an answer fail."""
        self._abandoned.detach()
        self._caller.close()

    def _run(self, work: Coroutine[Any, Any, Awaited]) -> Awaited:
        return self._caller.run(work)

    @cached_property
    def schedules(self) -> SyncSchedules:
        """The schedules are what comes again: `client.schedules.create(...)` and the like."""
        return SyncSchedules(self)

    @cached_property
    def cycles(self) -> SyncCycles:
        """The cycles are members that have their turn in every period: `client.cycles.create(...)` and the like."""
        return SyncCycles(self)

    @cached_property
    def queues(self) -> SyncQueues:
        """The queues are paused, drained and resumed here: `client.queues.pause(...)` and the like."""
        return SyncQueues(self)

    @cached_property
    def limits(self) -> SyncLimits:
        """The limits are what queues share: `client.limits.put(...)` and the like."""
        return SyncLimits(self)

    schedule = blocking(Client.schedule)
    schedule_many = blocking(Client.schedule_many)
    schedule_columns = blocking(Client.schedule_columns)
    cancel = blocking(Client.cancel)
    cancel_many = blocking(Client.cancel_many)
    reschedule = blocking(Client.reschedule)
    reschedule_many = blocking(Client.reschedule_many)
    fire_now = blocking(Client.fire_now)
    get = blocking(Client.get)
    wait = blocking(Client.wait)
    call = blocking(Client.call)
    count = blocking(Client.count)
    purge = blocking(Client.purge)
    redrive = blocking(Client.redrive)
    purge_dead_letters = blocking(Client.purge_dead_letters)
    server_info = blocking(Client.server_info)
    cluster = blocking(Client.cluster)
    partition = blocking(Client.partition)
    announce = blocking(Client.announce)
    drain = blocking(Client.drain)
    overview = blocking(Client.overview)
    load = blocking(Client.load)
    audited = iterating(Client.audited)
    watch = iterating(Client.watch)
    receive = blocking(Client.receive)
    finish = blocking(Client.finish)
    extend = blocking(Client.extend)
    sweep_zones = blocking(Client.sweep_zones)
    dead_letters = iterating(Client.dead_letters)
    list = iterating(Client.list)
