"""What an application has: functions, and a scheduler that each of its processes makes."""

from __future__ import annotations

from threading import Event

from apscheduler.schedulers.background import BackgroundScheduler

from timerd.client import ConnectOptions
from timerd.contrib.apscheduler import TimerdJobStore

here = Event()


def say_here() -> None:
    here.set()


def close_the_books() -> None:
    """The nightly work."""


def make_scheduler(timerd: str | ConnectOptions) -> BackgroundScheduler:
    """One argument more than without timerd."""
    return BackgroundScheduler(timezone="Europe/Berlin", jobstores={"default": TimerdJobStore(timerd)})


def add_jobs(scheduler: BackgroundScheduler) -> None:
    """Each process says the same at its start."""
    scheduler.add_job(close_the_books, "cron", hour=2, minute=30, id="books", replace_existing=True)
