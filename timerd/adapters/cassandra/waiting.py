"""Waiting for several writes: all are brought to their end, then their outcomes are judged together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

from timerd.adapters.cassandra.failures import joined

T = TypeVar("T")


async def every(writes: Iterable[Awaitable[T]]) -> list[T]:
    """The results in order; one failure for all of them where any failed."""
    writes = list(writes)
    if len(writes) == 1:
        return [await writes[0]]
    results = await asyncio.gather(*writes, return_exceptions=True)
    failed = [result for result in results if isinstance(result, BaseException)]
    if failed:
        raise joined(failed, wrote_some=len(failed) < len(results))
    return [result for result in results if not isinstance(result, BaseException)]
