"""Work that coroutines hand to a thread of the store, and how they hear of its end.

A thread takes all that waits at once and tells of all of it by one call into the event loop: to wake the thread, and
the loop again, costs more than most of the work itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
_log = logging.getLogger(__name__)


class WriteJob(NamedTuple):
    work: Callable[[Any], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


JobResult = tuple[WriteJob, Any, BaseException | None]


class _Stir(NamedTuple):
    """No work, and yet not nothing."""


_STIR = _Stir()


class Jobs:
    """A queue from coroutines to one thread. `rest` is called by the thread when it has had nothing to do for `rest_s`,
    once after each time that it had."""

    def __init__(self, rest: Callable[[], None], rest_s: float = 1.0) -> None:
        self._waiting: SimpleQueue[WriteJob | _Stir | None] = SimpleQueue()
        self._rest = rest
        self._rest_s = rest_s

    def hand_over(self, work: Callable[[Any], Any]) -> asyncio.Future[Any]:
        """What comes of it; in the order of the calls."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.put(WriteJob(work, loop, future))
        return future

    def stir(self) -> None:
        """The thread rests once more, when it has had nothing to do for a while from now on."""
        self._waiting.put(_STIR)

    def end(self) -> None:
        """The thread ends after everything that was handed over before."""
        self._waiting.put(None)

    def next_batch(self, most: int) -> tuple[list[WriteJob], bool]:
        """Waits for work, and takes all there is of it. False: there will be no more."""
        batch: list[WriteJob] = []
        job: WriteJob | _Stir | None = self._first()
        while job is not None:
            if isinstance(job, WriteJob):
                batch.append(job)
            if len(batch) >= most:
                return batch, True
            try:
                job = self._waiting.get_nowait()
            except Empty:
                return batch, True
        return batch, False

    def _first(self) -> WriteJob | None:
        while isinstance(job := self._get(), _Stir):
            pass
        return job

    def _get(self) -> WriteJob | _Stir | None:
        try:
            return self._waiting.get(timeout=self._rest_s)
        except Empty:
            self._try_to_rest()
            return self._waiting.get()

    def _try_to_rest(self) -> None:
        try:
            self._rest()
        except Exception:  # noqa: BLE001 - told in the log
            # The thread lives on: all that is written or read goes through it.
            _log.exception("What the store keeps in memory could not be given back.")


def tell(outcomes: Iterable[JobResult]) -> None:
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[JobResult]] = defaultdict(list)
    for outcome in outcomes:
        by_loop[outcome[0].loop].append(outcome)
    for loop, told in by_loop.items():
        try:
            loop.call_soon_threadsafe(_resolve, told)
        except RuntimeError:
            _log.warning("An event loop ended before it heard of its last %d answers of the store.", len(told))


def _resolve(outcomes: list[JobResult]) -> None:
    for job, result, error in outcomes:
        if job.future.done():
            continue
        if error is None:
            job.future.set_result(result)
        else:
            job.future.set_exception(error)
