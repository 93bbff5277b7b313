"""A bar on stderr for what takes longer than a second; nothing for what does not, and nothing into a pipe.

A command has one bar: it says "waiting" until the command knows better.
"""

from __future__ import annotations

import asyncio
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_SHOWN_AFTER_S = 0.7


class Bar:
    """How far the command is. Used inside a running event loop, which shows the bar when the command takes a while."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._total: int | None = None
        self._done = 0
        self._timer: asyncio.TimerHandle | None = None
        self._shown: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._timer = asyncio.get_running_loop().call_later(_SHOWN_AFTER_S, self._show)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def begin(self, what: str, total: int | None = None) -> None:
        """`total` None: it is not known how much there is."""
        self._what, self._total, self._done = what, total, 0
        self._refresh()

    def reach(self, done: int) -> None:
        self._done = done
        self._refresh()

    def advance(self) -> None:
        self.reach(self._done + 1)

    def stop(self) -> None:
        """Out of the way for good: results are about to be printed."""
        if self._timer:
            self._timer.cancel()
        if self._shown:
            self._shown[0].stop()
            self._shown = None

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._shown = (progress, progress.add_task(self._what, total=self._total))
        progress.start()
        self._refresh()

    def _refresh(self) -> None:
        if self._shown:
            progress, bar = self._shown
            progress.update(bar, description=self._what, total=self._total, completed=self._done)
