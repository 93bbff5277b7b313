"""`python -m tests.process.failpoints.server --data FOLDER --listen HOST:PORT [--at POINT[:nth]] [--ahead-s S]`

The ordinary server, wired as `timerd serve` does it, with short intervals, small pages and slices, so that each point
is reached within a second, and with a clock that may be ahead of the machine's: a bucket can be over, a far day near.
Without `--at` nothing is wrapped.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.process.failpoints.points import POINTS, install
from timerd import bootstrap
from timerd.adapters.clocks import SystemClock
from timerd.adapters.sqlite import far, retention
from timerd.config import ServerConfig
from timerd.core.partition.holding import HoldingSettings
from timerd.services import node
from timerd.services.holding import paging, scheduler

_MARK_EVERY_MS = 50


class AheadClock(SystemClock):
    """The machine's clock, so far ahead."""

    def __init__(self, ahead_ms: float) -> None:
        super().__init__()
        self._ahead_ms = ahead_ms

    def wall_ms(self) -> float:
        return super().wall_ms() + self._ahead_ms


def quicken() -> None:
    """Every interval short, every page and slice as small as it can be."""
    patched: Any = bootstrap
    patched.Settings = partial(HoldingSettings, mark_every_ms=_MARK_EVERY_MS)
    node.DROP_EVERY_S = 0.1
    scheduler.TICK_S = 0.02
    scheduler.RECONCILE_MS = 100
    paging.PAGE_BYTES = 1
    retention.SLICE_ROWS = 1
    far.SLICE_GROUPS = 1


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.process.failpoints.server")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--listen", required=True)
    parser.add_argument("--at", default="", metavar="POINT[:nth]", help=", ".join(POINTS))
    parser.add_argument("--ahead-s", type=float, default=0.0)
    parser.add_argument("--history-ms", type=int, default=ServerConfig().history_retention_ms)
    parser.add_argument("--lag-ms", type=int, default=ServerConfig().max_mark_lag_ms)
    given = parser.parse_args(arguments)
    if given.at and given.at.partition(":")[0] not in POINTS:
        parser.error(f"--at is {given.at!r}; the points are: {', '.join(POINTS)}.")
    return given


def serve(arguments: Sequence[str] | None, ready: Callable[[str, str], None]) -> None:
    given = parsed(arguments)
    quicken()
    patched: Any = bootstrap
    patched.SystemClock = partial(AheadClock, given.ahead_s * 1000)
    if given.at:
        name, _, nth = given.at.partition(":")
        install(POINTS[name], int(nth or 1))
    config = ServerConfig(
        data=given.data,
        listen=given.listen,
        history_retention_ms=given.history_ms,
        max_mark_lag_ms=given.lag_ms,
        drain_ms=100,
    )
    asyncio.run(bootstrap.serve(config, ready))


def serve_forked(arguments: Sequence[str], ready: Connection, errors: str) -> None:
    """In a process that was forked from one where everything is imported: a start takes a few milliseconds."""
    handle = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(handle, 2)
    serve(arguments, lambda address, _: ready.send(address))


if __name__ == "__main__":
    serve(None, lambda address, _: print(f"ready on {address}", flush=True))
