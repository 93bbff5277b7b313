"""Work that nobody awaits. It begins here, so that an error which ends it is seen: asyncio tells of one only when the
task is collected, and whatever waits for the work would wait for ever, in silence."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import grpc
import grpc.aio

log = logging.getLogger(__name__)
# Errors of this process that no code expects, by the work that met them.
unforeseen: Counter[str] = Counter()
# What a write raises when its connection is gone, or goes.
OF_CONNECTIONS = (grpc.aio.BaseError, grpc.RpcError, asyncio.InvalidStateError)
# The event loop itself keeps no task alive.
_running: set[asyncio.Task[Any]] = set()


def note(work: str, error: BaseException, consequence: str) -> None:
    """Counts an error that no code expects, and writes it to the log with its traceback. `work` is a fixed name, a
    label of the metric; `consequence` says where it happened and what follows."""
    unforeseen[work] += 1
    log.error("unforeseen error in %s: %s", work, consequence, exc_info=error)


@contextmanager
def noted(work: str, consequence: str) -> Iterator[None]:
    """A block that nothing depends on: an error that ends it is noted, and what comes after it goes on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - it is noted
        note(work, error, consequence)


def begin(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Runs `work` in a task of its own. An error that ends it is noted under `name`."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    _running.add(task)
    task.add_done_callback(_over)
    return task


def begin_writer(work: Coroutine[Any, Any, None], name: str, end: Callable[[], object]) -> asyncio.Task[None]:
    """Runs the writer of a stream that another task reads. An error other than of the connection, which the reader
    meets by itself, is noted, and `end` called: else the stream would be read on, and nobody ever answered."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    task.add_done_callback(partial(_written, end=end))
    return task


@contextmanager
def writing(work: Coroutine[Any, Any, None], name: str) -> Iterator[asyncio.Task[None]]:
    """A block that reads a stream while `work` writes it. Raises what the writer raised, as `begin_writer` notes it."""
    reader = asyncio.current_task()
    assert reader is not None
    writer = begin_writer(work, name, reader.cancel)
    try:
        yield writer
    except asyncio.CancelledError:
        error = _unforeseen_in(writer)
        if error is None or reader.uncancel():
            raise
        raise error from None


def _written(task: asyncio.Task[None], end: Callable[[], object]) -> None:
    if (error := _unforeseen_in(task)) is not None:
        note(task.get_name(), error, "the stream is ended")
        end()


def _unforeseen_in(writer: asyncio.Task[None]) -> BaseException | None:
    error = None if not writer.done() or writer.cancelled() else writer.exception()
    return None if isinstance(error, OF_CONNECTIONS) else error


def _over(task: asyncio.Task[None]) -> None:
    _running.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        note(task.get_name(), error, "the work has ended")


def noted_by_loop(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """For `loop.set_exception_handler`: errors in callbacks, and in tasks that others begin."""
    error = context.get("exception")
    if isinstance(error, Exception):
        note("event_loop", error, str(context.get("message", "")))
    else:
        loop.default_exception_handler(context)
