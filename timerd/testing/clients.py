"""The client by which a test server schedules typed tasks: a program and its worker may run in different loops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from timerd.client import Client, ConnectOptions, Task

Scheduled = TypeVar("Scheduled")


class HomeClient(Client):
    """A client that lives in the loop in which it was made, and schedules for coroutines of any loop."""

    def __init__(self, options: ConnectOptions, namespace: str) -> None:
        super().__init__(options, namespace=namespace)
        self._home = asyncio.get_running_loop()

    async def schedule(self, *args: Any, **kwargs: Any) -> Task:  # noqa: ANN401 - those of its parent
        return await self._at_home(super().schedule(*args, **kwargs))

    async def schedule_many(self, *args: Any, **kwargs: Any) -> list[Task]:  # noqa: ANN401 - those of its parent
        return await self._at_home(super().schedule_many(*args, **kwargs))

    async def _at_home(self, call: Coroutine[Any, Any, Scheduled]) -> Scheduled:
        if asyncio.get_running_loop() is self._home:
            return await call
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._home))
