"""`python -m tests.process.hot_second.server STEPS serve ...`: the ordinary command, which writes into the file STEPS
each step of its event loop that took long, in processor time: what others of the machine take is not counted."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from timerd import cli
from timerd.demo.records import now_ms

# Shorter steps are not written down.
LONG_MS = 5.0


def note_steps_in(path: Path) -> None:
    steps = path.open("a", encoding="ascii", buffering=1)
    run = asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        begun_s = time.thread_time()
        run(handle)
        took_ms = (time.thread_time() - begun_s) * 1000
        if took_ms >= LONG_MS:
            steps.write(f"{now_ms():.0f} {took_ms:.1f}\n")

    setattr(asyncio.Handle, "_run", measured)  # noqa: B010 - a method is not assigned to


if __name__ == "__main__":
    note_steps_in(Path(sys.argv[1]))
    cli.main(sys.argv[2:])
