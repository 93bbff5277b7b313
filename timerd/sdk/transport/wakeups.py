"""Keeps complaints of asyncio to itself that mean nothing: gRPC woke a loop which found nothing to do.

All asyncio loops of a process that use gRPC read one socket by which it wakes them. The loop that comes first takes the
byte and hands each event to the loop it is for; the others get a BlockingIOError, and asyncio reports it with a
traceback, hundreds of times a second (grpc/grpc#25364). Likewise when an event is for a loop that is closed meanwhile.
Nothing is lost by either: each event has its own byte, and the loop that reads one hands on all that is there. It meets
the plainest of programs: a `Worker` whose plain handler schedules a follow-up by a `SyncClient`, which has a loop of
its own.

Loops that get a channel of ours drop it in front of their exception handler, which costs a microsecond where the
report would cost 400. Others are woken as well (a server in the same process, somebody else's client), so the record
is dropped at asyncio's logger too, where all loops report.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

_READER = "PollerCompletionQueue._handle_events"
_LOOP_IS_CLOSED = "Event loop is closed"
Context: TypeAlias = dict[str, Any]
OnException: TypeAlias = Callable[[asyncio.AbstractEventLoop, Context], object]


def ignore_idle_wakeups(loop: asyncio.AbstractEventLoop) -> None:
    """Before `loop` gets a channel. Once is enough for a loop, more does no harm."""
    logging.getLogger("asyncio").addFilter(_tells_something)
    own = loop.get_exception_handler()
    if not isinstance(own, _Spared):
        loop.set_exception_handler(_Spared(own))


@dataclass(frozen=True, slots=True)
class _Spared:
    """What the program wants to hear about its loop, without the idle wake-ups."""

    own: OnException | None

    def __call__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        if is_idle_wakeup(context.get("exception")):
            return
        if self.own is None:
            loop.default_exception_handler(context)
        else:
            self.own(loop, context)


def is_idle_wakeup(error: object) -> bool:
    """Raised by gRPC's reader itself: found nothing, or something for a loop that is closed, where nobody waits for it.
    The same errors from anything else are somebody's business."""
    if not isinstance(error, (BlockingIOError, RuntimeError)):
        return False
    names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, BlockingIOError):
        return bool(names) and names[-1].endswith(_READER)
    return str(error) == _LOOP_IS_CLOSED and any(name.endswith(_READER) for name in names)


def _tells_something(record: logging.LogRecord) -> bool:
    # asyncio itself says False where there is no exception.
    return not record.exc_info or not is_idle_wakeup(record.exc_info[1])
