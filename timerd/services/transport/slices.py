"""Long work in short slices: the loop that takes requests in also fires, so nothing may hold it for milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from hashlib import blake2b
from typing import TypeVar

# About a third of a millisecond of checking or answering items.
SLICE_ITEMS = 64
# Hashing so much takes half a millisecond; beyond it a thread does it, without the interpreter's lock.
INLINE_HASH_BYTES = 512 * 1024
T = TypeVar("T")


async def in_slices(items: Iterable[T]) -> AsyncIterator[tuple[int, T]]:
    """As `enumerate`, letting others run in between."""
    for index, item in enumerate(items):
        if index and index % SLICE_ITEMS == 0:
            await asyncio.sleep(0)
        yield index, item


async def hash_of(*parts: bytes) -> bytes:
    """Of the parts one after the other, without joining them: a copy of a large message costs as much as its hash."""
    if sum(map(len, parts)) <= INLINE_HASH_BYTES:
        return hash_now(parts)
    return await asyncio.to_thread(hash_now, parts)


def hash_now(parts: Iterable[bytes]) -> bytes:
    """As `hash_of`, of what is short."""
    state = blake2b(digest_size=32)
    for part in parts:
        state.update(part)
    return state.digest()
