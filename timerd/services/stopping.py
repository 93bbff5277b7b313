"""The end of an instance, step by step: none of them holds up those that come after it.

The supervisor of the process waits for it a while and then kills it, so a step that never ends would cost what comes
after it: leases given back, what is estimated, the store closed. It is left behind, and where it waits is said.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from types import CoroutineType
from typing import Any, cast

log = logging.getLogger("timerd.stopping")


# Of one step, beyond what the longest one waits by itself. On a machine that keeps up each takes milliseconds, and
# some seconds where the store is in trouble.
STEP_S = 15.0


async def bounded(step: Coroutine[Any, Any, object], limit_s: float = STEP_S) -> None:
    """Raises what the step raises."""
    task = asyncio.get_running_loop().create_task(step)
    try:
        over, _ = await asyncio.wait([task], timeout=limit_s)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if over:
        await task
        return
    log.error("stopping goes on although a step is not over after %g s, it waits in %s", limit_s, where(task))
    task.cancel()


def where(task: asyncio.Task[Any]) -> str:
    """The functions that it waits in, the outermost first, and what the innermost waits for."""
    names, waits = [], cast(Any, task.get_coro())
    while isinstance(waits, CoroutineType):
        line = waits.cr_frame.f_lineno if waits.cr_frame else 0
        names.append(f"{waits.__qualname__}:{line}")
        waits = waits.cr_await
    return " > ".join([*names, repr(waits)])
