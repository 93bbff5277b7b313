"""Calls to keepers, one of a thing at a time: what is wanted while one is under way goes with the next one.

A call speaks of all that is wanted when it begins. So one that is wanted meanwhile may not be in it, and a second one
at the same time would say the same twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, ValuesView
from functools import partial
from typing import Any, Generic, TypeVar

from timerd.services.background import begin

Called = TypeVar("Called", bound=Hashable)


class CoalescedCalls(Generic[Called]):
    """`call` makes one; an error of it is noted under `work`."""

    def __init__(self, call: Callable[[Called], Coroutine[Any, Any, None]], work: str) -> None:
        self._call = call
        self._work = work
        self._under_way: dict[Called, asyncio.Task[None]] = {}
        # Wanted while one was under way.
        self._again: set[Called] = set()

    def __contains__(self, called: Called) -> bool:
        """Whether one is under way."""
        return called in self._under_way

    def want(self, called: Called) -> None:
        """Now, or when the one that is under way has ended."""
        if called in self._under_way:
            self._again.add(called)
            return
        task = self._under_way[called] = begin(self._call(called), self._work)
        task.add_done_callback(partial(self._ended, called))

    def tasks(self) -> ValuesView[asyncio.Task[None]]:
        """What is under way."""
        return self._under_way.values()

    def _ended(self, called: Called, task: asyncio.Task[None]) -> None:
        del self._under_way[called]
        if called in self._again:
            self._again.discard(called)
            if not task.cancelled():
                self.want(called)
