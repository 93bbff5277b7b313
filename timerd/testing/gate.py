"""The store as one instance of a test reaches it: the test may freeze that instance, cut it off, or kill it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from timerd.model.errors import StoreUnavailable
from timerd.ports import Store


class StoreGate:
    """Used as a `Store`. What is under way when it closes may or may not have been done; its answer waits. No store
    that several instances share knows repeats, so this one does not use it either."""

    def __init__(self, store: Store) -> None:
        self.traits = replace(store.traits, knows_repeats=False)
        self.cas_calls = 0
        self._store = store
        self._open = asyncio.Event()
        self._open.set()
        self._is_cut = self._is_dead = False

    def freeze(self) -> None:
        self._open.clear()

    def thaw(self) -> None:
        self._open.set()

    def cut(self, *, off: bool = True) -> None:
        """The store does not answer: each call fails at once."""
        self._is_cut = off

    def kill(self) -> None:
        """Whatever the instance still does comes to nothing."""
        self._is_dead = True
        self._open.set()

    async def close(self) -> None:
        """The store outlives its instances."""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._store, name)

        async def through(*args: object, **settings: object) -> object:
            await self._pass()
            self.cas_calls += name == "cas"
            answer = await method(*args, **settings)
            await self._pass()
            return answer

        return through

    async def _pass(self) -> None:
        await self._open.wait()
        if self._is_dead:
            raise asyncio.CancelledError
        if self._is_cut:
            raise StoreUnavailable("The store does not answer.", "STORE_UNAVAILABLE")
