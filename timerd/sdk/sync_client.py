"""`SyncClient`: the asyncio client's calls without await."""

from __future__ import annotations

import weakref
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from timerd.sdk.async_client import Client
from timerd.sdk.connection import DEFAULT_TARGET
from timerd.sdk.quick_client import QuickClient, quickly
from timerd.sdk.sync_twin import SHARED_LOOP, Caller, blocking, iterating
from timerd.sdk.times import Clock, Span
from timerd.sdk.traces import Traces

Result = TypeVar("Result")


class SyncClient:
    """`Client` without await, safe from many threads: `with SyncClient() as client:`. Takes the same arguments."""

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        namespace: str = "default",
        timeout: Span = 30.0,
        tls: bool = False,
        ca_file: str | Path | None = None,
        cert_file: str | Path | None = None,
        key_file: str | Path | None = None,
        tls_server_name: str = "",
        token: str = "",
        token_file: str | Path | None = None,
        channel_options: Sequence[tuple[str, str | int]] = (),
        clock: Clock | None = None,
        tracing: Traces | None = None,
    ) -> None:
        self._client = Client(
            target,
            namespace=namespace,
            timeout=timeout,
            tls=tls,
            ca_file=ca_file,
            cert_file=cert_file,
            key_file=key_file,
            tls_server_name=tls_server_name,
            token=token,
            token_file=token_file,
            channel_options=channel_options,
            clock=clock,
            tracing=tracing,
        )
        self._caller = Caller(SHARED_LOOP.acquire())
        SHARED_LOOP.own(self._client)
        self._quick = QuickClient(self._client, self._caller)
        self._abandoned = weakref.finalize(self, SHARED_LOOP.abandon, self._client)
        # The end of the program is the loop's own business.
        self._abandoned.atexit = False
        self._hung_up = weakref.finalize(self, self._quick.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._caller.is_closed:
            return
        self._abandoned.detach()
        self._caller.close(self._client)
        self._hung_up()
        if not self._caller.is_forked:
            SHARED_LOOP.release()

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._caller.run(work)

    schedule = quickly(Client.schedule)
    schedule_many = blocking(Client.schedule_many)
    schedule_columns = blocking(Client.schedule_columns)
    cancel = quickly(Client.cancel)
    cancel_many = blocking(Client.cancel_many)
    reschedule = quickly(Client.reschedule)
    fire_now = blocking(Client.fire_now)
    get = blocking(Client.get)
    count = blocking(Client.count)
    purge = blocking(Client.purge)
    redrive = blocking(Client.redrive)
    server_info = blocking(Client.server_info)
    cluster = blocking(Client.cluster)
    partition = blocking(Client.partition)
    announce = blocking(Client.announce)
    drain = blocking(Client.drain)
    dead_letters = iterating(Client.dead_letters)
    list = iterating(Client.list)
