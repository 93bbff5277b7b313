"""What the demo shows while it runs: bars on a terminal, plain lines of events anywhere else. All of it on stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from timerd.demo.callers import Answered
from timerd.demo.plan import Plan


class DemoProgress:
    """One line of events and one bar each for what is asked and what arrives."""

    def __init__(self, plan: Plan, *, quiet: bool) -> None:
        self._quiet = quiet
        self._since_s = time.monotonic()
        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description:<12}"),
            BarColumn(40),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self._bars = Bars(*columns, console=console, disable=quiet or not sys.stderr.isatty())
        tasks = len(plan.bulk) + len(plan.singles)
        self._scheduled = self._add("scheduled", tasks)
        self._cancels = self._add("cancels", sum(change.verb == "cancel" for change in plan.changes))
        self._moves = self._add("moves", sum(change.verb == "move" for change in plan.changes))
        self._fired = self._add("fired", tasks)
        self._acked = self._add("acked", tasks)

    def _add(self, what: str, total: int) -> TaskID:
        return self._bars.add_task(what, total=total, note="")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._bars.stop()

    def say(self, event: str) -> None:
        if not self._quiet:
            self._bars.console.print(f"{time.monotonic() - self._since_s:5.1f} s  {event}", highlight=False)

    def show(self, answered: Answered, fired: int, acked: int) -> None:
        waiting = f"{answered.unanswered} calls unanswered" if answered.unanswered else ""
        self._bars.update(self._scheduled, completed=answered.schedules, note=waiting)
        self._bars.update(self._cancels, completed=answered.cancels)
        self._bars.update(self._moves, completed=answered.moves)
        self._bars.update(self._fired, completed=fired)
        self._bars.update(self._acked, completed=acked)
