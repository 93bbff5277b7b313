"""Waiting for several writes: all are brought to their end, then their outcomes are judged together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from timerd.adapters.cassandra.failures import joined

K = TypeVar("K")
T = TypeVar("T")


async def every(writes: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order; one failure for all of them where any failed."""
    writes = list(writes)
    if len(writes) == 1:
        return [await writes[0]]
    results = await asyncio.gather(*writes, return_exceptions=True)
    failed = [result for result in results if isinstance(result, BaseException)]
    if failed:
        raise joined(failed, wrote_some=len(failed) < len(results))
    return [result for result in results if not isinstance(result, BaseException)]


async def one_after_another(writes: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """As `every`, of writes that cost something to make: the event loop may turn between one and the next."""
    begun: list[asyncio.Task[T]] = []
    for write in writes:
        begun.append(asyncio.get_running_loop().create_task(write))
        await asyncio.sleep(0)
    return await every(map(_end_of, begun))


async def _end_of(task: asyncio.Task[T]) -> T:
    return await task


async def some_at_a_time(write: Callable[[K], Coroutine[Any, Any, T]], items: Sequence[K], most: int) -> list[T]:
    """As `every`, of so many items that beginning all of them would hold up the event loop. None is begun after a
    failure: where the store is down, each would wait for its time limit."""
    if len(items) <= 1:
        return [await write(item) for item in items]
    results: dict[int, T] = {}
    failed: list[BaseException] = []
    waiting = iter(enumerate(items))

    async def work() -> None:
        for at, item in waiting:
            try:
                results[at] = await write(item)
            except Exception as error:  # noqa: BLE001 - told below, with those of the others
                failed.append(error)
            if failed:
                return

    await asyncio.gather(*(work() for _ in range(min(most, len(items)))))
    if failed:
        raise joined(failed, wrote_some=bool(results))
    return [results[at] for at in range(len(items))]
