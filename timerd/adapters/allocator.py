"""Tells the C library's allocator what to keep of what is freed, and gives the rest back to the machine.

By default glibc keeps an arena per thread and learns to keep ever larger blocks, so a server that took in a few hundred
megabytes of batches held several bytes for each byte of pending tasks. There are two arenas here, and what is large
goes back at once. A little that is free at the end of an arena is kept: without it every message asks the kernel for
pages and gives them back. What is free elsewhere goes back in a moment of rest, where somebody knows of one
(`give_back_spare`). See mallopt(3).
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_ARENAS = 2
_SPARE_BYTES = 4 << 20


def give_back_spare() -> None:
    """All that is free, wherever it lies. Some milliseconds in which other threads may wait for the allocator: for a
    moment in which nothing happens. Does nothing where the C library has no malloc_trim."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def give_back_large_buffers(from_bytes: int) -> None:
    """What is so large, when it is freed. Does nothing where the C library has no mallopt. Call it before threads are
    started."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):
        return
    libc.mallopt(_M_ARENA_MAX, _ARENAS)
    libc.mallopt(_M_MMAP_THRESHOLD, from_bytes)
    libc.mallopt(_M_TRIM_THRESHOLD, _SPARE_BYTES)
