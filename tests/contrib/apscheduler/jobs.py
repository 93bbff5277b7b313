"""Functions of jobs, which are found by their names, and a program that has some."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from apscheduler.schedulers.background import BackgroundScheduler

from timerd.contrib.apscheduler import TimerdJobStore

made: list[str] = []


def report(name: str) -> None:
    made.append(name)


def fail() -> None:
    raise ValueError("no paper")


async def report_later(name: str) -> None:
    made.append(f"{name}, by a coroutine")


def note(path: str, name: str) -> None:
    """A line that names the job and the process."""
    with Path(path).open("a") as file:
        file.write(f"{name} {os.getpid()}\n")


def main(server: str, path: str, count: str) -> None:
    """As each process of an application does it: the same jobs, with the same ids, for tomorrow."""
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    store = TimerdJobStore(server, timeout=60)
    scheduler = BackgroundScheduler(timezone="UTC", jobstores={"default": store})
    scheduler.start()
    for number in range(int(count)):
        given = {"args": [path, f"job-{number}"], "id": f"job-{number}", "replace_existing": True}
        # By its name, for here it is a function of the script.
        scheduler.add_job("tests.contrib.apscheduler.jobs:note", "date", run_date=tomorrow, **given)
    print("ready", flush=True)
    sys.stdin.readline()
    scheduler.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
