"""`timerd demo`: see for yourself that nothing is early, lost or doubled when the server is killed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from timerd.commands import options
from timerd.commands.failures import CommandFailure, check_platform
from timerd.commands.output import Form, Output

if TYPE_CHECKING:
    from timerd.demo.run import Report


def demo(
    tasks: Annotated[int, typer.Option(min=100, max=200_000, help="How many tasks to schedule.")] = 10_000,
    seconds: Annotated[int, typer.Option(min=4, max=600, help="Over which they fire.")] = 10,
    seed: Annotated[int, typer.Option(help="Which tasks are cancelled and moved, and when.")] = 1,
    data: Annotated[Path | None, typer.Option(help="Keep data and logs here; else a folder that is removed.")] = None,
    json: options.Json = False,
) -> None:
    """Kill a server in the middle and count what arrived.

    Tasks are scheduled, and the server is killed with kill -9. Exit code 0 = all as promised.
    """
    check_platform("timerd demo")
    from timerd.demo.processes import DemoFailed
    from timerd.demo.run import DemoSettings, run_demo
    from timerd.demo.show import record_of, show

    out = Output(Form.of(json))
    try:
        report = asyncio.run(_until_signalled(run_demo(DemoSettings(tasks, seconds, seed, data), quiet=json)))
    except DemoFailed as error:
        raise CommandFailure(str(error)) from error
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    if json:
        out.one(record_of(report), "")
    else:
        show(report)
    if not report.holds:
        raise CommandFailure("The demo found something that must not be: see above.")


async def _until_signalled(playing: Coroutine[Any, Any, Report]) -> Report:
    """Its server and its worker end with it."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await playing


def register(app: typer.Typer) -> None:
    app.command()(demo)
