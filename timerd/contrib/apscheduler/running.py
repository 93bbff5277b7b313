"""`JobRunner`: runs jobs of APScheduler that are due, as an ordinary handler of a worker."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import UTC
from typing import Any

from apscheduler.events import EVENT_JOB_ERROR
from apscheduler.executors.base import run_coroutine_job, run_job
from apscheduler.util import iscoroutinefunction_partial

from timerd.client import ConnectOptions
from timerd.contrib.apscheduler.jobs import content_of, grace_of, job_of
from timerd.sdk.values import name
from timerd.worker import Delivery, Reject, Worker

DEFAULT_QUEUE = "apscheduler"
_LOGGER = "apscheduler.executors.timerd"
_STOP_S = 30.0
log = logging.getLogger("timerd.apscheduler")


class JobRunner:
    """A runner calls the functions of jobs that are due. It needs the code of the jobs, and no scheduler.

    Use it in a process of its own, where schedulers have `TimerdJobStore(..., concurrency=0)`. Any number may run.

    Args:
        queue: the queue of the runs, as the job stores have it. Default "apscheduler".
        concurrency: how many jobs run at a time, in threads. Default 10.
        modules: only functions of these modules are run, and of what is in them. Default whatever a job names.
    """

    def __init__(
        self, *, queue: str = DEFAULT_QUEUE, concurrency: int = 10, modules: Sequence[str] | None = None
    ) -> None:
        self._queue = name(queue, "queue")
        self._concurrency = concurrency
        self._modules = None if modules is None else tuple(modules)
        self._scheduler: Any = None
        self._alias = "timerd"

    def serving(self, scheduler: Any, alias: str) -> JobRunner:  # noqa: ANN401 - APScheduler has no types
        """From here on the listeners of a scheduler hear what became of runs.

        Args:
            scheduler: the scheduler.
            alias: the name of the job store in it.
        """
        self._scheduler, self._alias = scheduler, alias
        return self

    def attach(self, worker: Worker) -> None:
        """The worker runs what is due from then on.

        Args:
            worker: a worker that does not run yet.

        Raises:
            InvalidTask: the queue has a handler already, or is of a wrong form.
        """
        worker.on(self._queue, concurrency=self._concurrency)(self.run)

    def run(self, delivery: Delivery) -> None:
        """The handler: calls the function, and tells the listeners.

        Args:
            delivery: a run that is due.

        Raises:
            Reject: the function has raised, or is none that is run here.
            Exception: what the function has raised, of a job that is tried again; or it was not found.
        """
        try:
            kept = content_of(delivery.payload)
        except ValueError as wrong:
            raise Reject(str(wrong)) from None
        self._check_module(kept["func"])
        occurrence = delivery.occurrence
        run_time = (occurrence.instant if occurrence else delivery.fire_time).astimezone(UTC)
        job = job_of(kept, run_time)
        # It was in time when it began: who ran it is gone.
        job.misfire_grace_time = grace_of(kept) if delivery.attempt == 1 else None
        for event in self._events(job, run_time):
            if self._scheduler is not None:
                self._scheduler._dispatch_event(event)
            if event.code == EVENT_JOB_ERROR:
                raise _failure(event, is_retried=kept["is_retried"])

    def _check_module(self, reference: str) -> None:
        module = reference.partition(":")[0]
        if self._modules is not None and not any(f"{module}.".startswith(f"{each}.") for each in self._modules):
            allowed = ", ".join(self._modules)
            raise Reject(f"{reference} is not run here: `modules` of this runner names {allowed} alone.")

    def _events(self, job: Any, run_time: Any) -> Any:  # noqa: ANN401 - APScheduler has no types
        given = (job, self._alias, [run_time], _LOGGER)
        if not iscoroutinefunction_partial(job.func):
            return run_job(*given)
        # That of an AsyncIOScheduler, whose coroutines share what belongs to their loop.
        loop = getattr(self._scheduler, "_eventloop", None)
        if loop is None:
            return asyncio.run(run_coroutine_job(*given))
        return asyncio.run_coroutine_threadsafe(run_coroutine_job(*given), loop).result()


def _failure(event: Any, *, is_retried: bool) -> Exception:  # noqa: ANN401 - APScheduler has no types
    if is_retried and isinstance(event.exception, Exception):
        return event.exception
    return Reject(f"{event.exception!r}\n{event.traceback}")


class RunnerThread:
    """A worker in a thread of its own, beside the scheduler of a program.

    Args:
        runner: what it runs.
        connection: where timerd is.
    """

    def __init__(self, runner: JobRunner, connection: ConnectOptions) -> None:
        self._worker = Worker(replace(connection))
        runner.attach(self._worker)
        self._loop: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._run, name="timerd-apscheduler", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        async def work() -> None:
            self._loop.set_result(asyncio.get_running_loop())
            await self._worker.run()

        try:
            asyncio.run(work())
        except Exception:
            log.exception("No job runs in this process any more: its worker has ended.")

    def stop(self) -> None:
        """Runs that have begun come to their end, within half a minute. On an event loop nobody waits for them, since
        they may need it."""
        with suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._worker.stop(), self._loop.result(_STOP_S))
        if not _is_on_loop():
            self._thread.join(_STOP_S)


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
