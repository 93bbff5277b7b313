"""The asyncio client for programs without asyncio: one background loop thread, shared by all of the process.

Calls from many threads meet in that loop, so they are coalesced just like those of many coroutines. The twin's methods
are made from the asyncio ones with their signatures, so the two cannot drift apart.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from timerd.sdk.transport import forked
from timerd.sdk.values import TimerdError, client_is_closed

# How long the end of the program waits for a server to be told goodbye.
_GOODBYE_S = 2.0
P = ParamSpec("P")
Result = TypeVar("Result")
AnyClient = TypeVar("AnyClient")


class Closable(Protocol):
    """A client that lives in the loop."""

    async def close(self) -> None: ...


class BackgroundLoop:
    """Started with its first user, stopped with its last, and at the latest when the program ends."""

    def __init__(self) -> None:
        # What a parent had: to end an object of gRPC in its child waits for threads that are not there.
        self._inherited: list[object] = []
        self._begin()

    def forget(self) -> None:
        """As new: in a child that was forked the loop and its thread are the parent's, and stay as they are."""
        self._inherited.append((self._loop, self._thread, list(self._clients)))
        self._begin()

    def _begin(self) -> None:
        self.lock = threading.RLock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._clients: weakref.WeakSet[Closable] = weakref.WeakSet()

    def own(self, client: Closable) -> None:
        """Closed at the end of the program, if nobody does so before."""
        self._clients.add(client)

    def abandon(self, client: Closable) -> None:
        """Nobody has it any more, nor closed it. Called by the garbage collector, so in any thread and at any moment:
        it takes no lock, and its user stays counted (the loop then runs until the end of the program)."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(lambda: loop.create_task(client.close()))

    def acquire(self) -> asyncio.AbstractEventLoop:
        with self.lock:
            self._users += 1
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="timerd client", daemon=True)
                self._thread.start()
            return self._loop

    def release(self) -> None:
        with self.lock:
            self._users -= 1
            if self._users == 0:
                self._stop()

    def _stop(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        ended = asyncio.run_coroutine_threadsafe(_end_all(list(self._clients)), loop)
        with suppress(TimeoutError):
            ended.result(_GOODBYE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def stop_at_exit(self) -> None:
        """Clients that nobody closed do not keep the interpreter from leaving in order."""
        with self.lock:
            self._stop()


async def _end_all(clients: Sequence[Closable]) -> None:
    """Nothing is left pending for the end of the loop to complain about."""
    await asyncio.gather(*(client.close() for client in clients), return_exceptions=True)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


SHARED_LOOP = BackgroundLoop()
atexit.register(SHARED_LOOP.stop_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SHARED_LOOP.forget)


class Caller:
    """Runs a client's coroutines on the shared loop, from the first call on, and waits for what they give."""

    def __init__(self, client: Closable) -> None:
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._is_closed = False

    def close(self) -> None:
        if self._loop is not None and not self._is_closed and self._process == os.getpid():
            try:
                if not self._loop.is_closed():
                    self.run(self._client.close())
            finally:
                self._is_closed = True
                SHARED_LOOP.release()
        self._is_closed = True

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            waiting = asyncio.run_coroutine_threadsafe(work, self._open())
        except BaseException:
            work.close()
            raise
        try:
            return waiting.result()
        except BaseException:
            # An interrupted caller waits no more; a call that has ended is not touched by it.
            waiting.cancel()
            raise

    def _open(self) -> asyncio.AbstractEventLoop:
        """The loop, which is there and another one than the caller's."""
        if self._loop is None:
            with SHARED_LOOP.lock:
                if self._loop is None and not self._is_closed:
                    self._process = os.getpid()
                    self._loop = SHARED_LOOP.acquire()
                    SHARED_LOOP.own(self._client)
        if self._loop is None or self._is_closed or self._loop.is_closed():
            raise client_is_closed()
        if self._process != os.getpid():
            raise forked()
        if asyncio._get_running_loop() is self._loop:
            raise TimerdError(
                "This call would wait for itself: it is made in the client's own loop, by its progress callback or by "
                "a coroutine handler on a test server. Make it somewhere else, or await it by `Client`.",
                code="FAILED_PRECONDITION",
                reason="WOULD_DEADLOCK",
            )
        return self._loop


class Twin(Protocol):
    """What a sync method needs of its object: the asyncio client and a way to run on its loop."""

    _client: Any

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result: ...


def blocking(
    method: Callable[Concatenate[AnyClient, P], Awaitable[Result]],
) -> Callable[Concatenate[Any, P], Result]:
    """The same method without await."""

    @wraps(method)
    def call(self: Twin, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        async def work() -> Result:
            return await method(self._client, *args, **kwargs)

        return self._run(work())

    return call


def iterating(
    method: Callable[Concatenate[AnyClient, P], AsyncIterator[Result]],
) -> Callable[Concatenate[Any, P], Iterator[Result]]:
    """The same method as an ordinary iterator."""

    @wraps(method)
    def iterate(self: Twin, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[Result]:
        items = method(self._client, *args, **kwargs)

        async def next_item() -> Result:
            return await anext(items)

        while True:
            try:
                item = self._run(next_item())
            except StopAsyncIteration:
                return
            yield item

    return iterate
