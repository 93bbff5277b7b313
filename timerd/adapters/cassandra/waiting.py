"""Waiting for several writes: all are brought to their end, then their outcomes are judged together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from timerd.adapters.cassandra.failures import joined

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
