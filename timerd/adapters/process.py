"""How the process of a server is set up: the memory that it gives back, the files that it may open, how soon a thread
gets the interpreter.

By default glibc keeps an arena per thread and learns to keep ever larger blocks, so a server that took in a few hundred
megabytes of batches held several bytes for each byte of pending tasks. There are two arenas here, and what is large
goes back at once. A little that is free at the end of an arena is kept: without it every message asks the kernel for
pages and gives them back. What is free elsewhere goes back in a moment of rest, where somebody knows of one
(`give_back_spare`). See mallopt(3).
"""

from __future__ import annotations

import ctypes
import gc
import resource
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_ARENAS = 2
_SPARE_BYTES = 4 << 20
# What macOS lets a process have at least, while it says that there is no limit.
_SURE = 10_240
# The collector looks at young objects this often: columns make little garbage, and a look holds up firing.
GC_THRESHOLD = 50_000
# A thread that waits for the interpreter gets it after so long.
SWITCH_S = 0.0005


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


def allow_open_files() -> None:
    """As many as the system lets this process have without asking anybody. Each connection is an open file, and shells
    start programs with as few as 1,024: fewer than the streams that a server allows."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (most, _SURE):
        if wanted == resource.RLIM_INFINITY or wanted > now:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            except (ValueError, OSError):
                # More than the kernel gives any process.
                continue
            return


def tune_interpreter() -> None:
    """What was made at the start is never collected; a thread gives the interpreter up soon."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    sys.setswitchinterval(SWITCH_S)
