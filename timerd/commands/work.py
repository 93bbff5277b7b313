"""`timerd work`: a worker without a line of code. Each delivery runs a command, or is printed."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timerd.commands.call import CommandCall, online
from timerd.commands.execution import execute
from timerd.commands.failures import WrongInput, check_platform
from timerd.commands.output import payload_fields
from timerd.commands.plain_log import log_plainly
from timerd.commands.times import iso_of, parse_span, shown_span

if TYPE_CHECKING:
    from timerd.worker import Delivery, Worker

# Trying again is hopeless: EX_DATAERR of sysexits.h. Every other failure is tried again, EX_TEMPFAIL (75) among them.
_REJECT = os.EX_DATAERR


async def work(
    call: CommandCall,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Receive the tasks of this queue.")],
    command: Annotated[
        str | None,
        typer.Option("--exec", metavar="COMMAND", help="Run in a shell per task; without it payloads are printed."),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=1000, help="Tasks at a time.")] = 16,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many tasks.")] = None,
    limit: Annotated[
        str | None,
        typer.Option("--time-limit", metavar="SPAN", help="End what takes longer: 90s, 5m. It is tried again."),
    ] = None,
) -> None:
    """Receive due tasks until Ctrl-C.

    The command gets the payload on stdin, and TIMERD_TASK_ID, TIMERD_DELIVERY_ID, TIMERD_ATTEMPT and TIMERD_FIRE_TIME.
    Exit code 0 = done, 65 = hopeless (dead letter), any other = try again; the end of its stderr is kept as the error.
    What it leaves in the background goes on by itself. At a time-out, and when its task is cancelled, it is killed with
    all that it started.
    """
    from timerd.sdk.working import run_until_signalled
    from timerd.worker import Worker

    time_limit = None if limit is None else parse_span(limit)
    if time_limit is not None and (command is None or not time_limit):
        raise WrongInput("--time-limit is for the command of --exec, and more than 0: give for example 90s or 5m.")
    if command is not None:
        check_platform("timerd work --exec")
    await call.connect()
    call.bar.stop()
    log_plainly()
    worker = Worker(call.endpoint.connection())
    job = Job(call, command, count, worker, time_limit)
    worker.on(queue, concurrency=min(concurrency, count or concurrency))(job.handle)
    exit_code = await run_until_signalled(worker)
    if exit_code:
        raise typer.Exit(exit_code)


class Job:
    """What is done with each delivery."""

    def __init__(
        self, call: CommandCall, command: str | None, count: int | None, worker: Worker, time_limit: timedelta | None
    ) -> None:
        self._call = call
        self._command = command
        self._limit = time_limit
        self._left = count
        self._running = 0
        self._worker = worker
        self._stopping: asyncio.Task[None] | None = None

    async def handle(self, delivery: Delivery) -> None:
        from timerd.worker import Retry

        if self._left == 0:
            # The server gave one more before it heard that this worker stops.
            raise Retry(timedelta(), "the worker had received as many tasks as it was to take (--count)")
        if self._left is not None:
            self._left -= 1
        self._running += 1
        try:
            await (self._print(delivery) if self._command is None else self._execute(self._command, delivery))
        finally:
            self._running -= 1
            if self._left == 0 and not self._running:
                self._stopping = asyncio.create_task(self._worker.stop())

    async def _print(self, delivery: Delivery) -> None:
        if self._call.out.as_json:
            return self._call.out.line(_record(delivery) | payload_fields(delivery.payload), "")
        sys.stdout.buffer.write(delivery.payload + b"\n")
        sys.stdout.buffer.flush()

    async def _execute(self, command: str, delivery: Delivery) -> None:
        from timerd.worker import Reject, Retry

        as_json = self._call.out.as_json
        try:
            code, tail = await self._executed(command, delivery)
        except asyncio.CancelledError:
            # The command was ended with all that it had started.
            self._tell_interrupted(delivery)
            raise
        outcome = "done" if code == 0 else "rejected" if code == _REJECT else "failed"
        if as_json:
            self._call.out.line(_record(delivery) | {"exit_code": code, "outcome": outcome}, "")
        if code == 0:
            return
        why = tail if code is None else f"exit code {code}" + (f": {tail}" if tail else "")
        print(f"timerd: task {delivery.task_id}, attempt {delivery.attempt}, {outcome}: {why}", file=sys.stderr)
        raise Reject(why) if code == _REJECT else Retry(None, why)

    def _tell_interrupted(self, delivery: Delivery) -> None:
        if (reason := delivery.interrupted.reason) is None:
            return
        if self._call.out.as_json:
            self._call.out.line(_record(delivery) | {"exit_code": None, "outcome": "interrupted"}, "")
        why = f"interrupted: {reason.name.lower()}"
        print(f"timerd: task {delivery.task_id}, attempt {delivery.attempt}, {why}", file=sys.stderr)

    async def _executed(self, command: str, delivery: Delivery) -> tuple[int | None, str]:
        """(exit code, tail of stderr); without a code where it was ended, and why."""
        try:
            async with asyncio.timeout(self._limit.total_seconds() if self._limit is not None else None):
                return await execute(command, delivery, keep_stdout_clean=self._call.out.as_json)
        except TimeoutError:
            return None, f"the command had not ended after {shown_span(self._limit or timedelta())}, and was ended"


def _record(delivery: Delivery) -> dict[str, Any]:
    return {
        "task_id": delivery.task_id,
        "delivery_id": delivery.delivery_id,
        "queue": delivery.queue,
        "attempt": delivery.attempt,
        "fire_time": iso_of(delivery.fire_time),
        "labels": dict(delivery.labels),
    }


def register(app: typer.Typer) -> None:
    app.command()(online(work))
