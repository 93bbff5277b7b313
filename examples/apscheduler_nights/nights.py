"""Some nights by a clock that is turned, with two schedulers that stand for two processes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from apscheduler.events import EVENT_JOB_EXECUTED, JobExecutionEvent
from apscheduler.schedulers.background import BackgroundScheduler

from examples.apscheduler_nights import jobs
from timerd.testing import SyncServer, server

# In 2030 Berlin leaves out an hour on 31 March, and has one twice on 27 October.
CHANGES = {"spring": datetime(2030, 3, 31, tzinfo=UTC), "autumn": datetime(2030, 10, 27, tzinfo=UTC)}
PATIENCE_S = 120.0


def runs_around(change: datetime) -> list[datetime]:
    """When the job has run in the two nights before, in the night itself, and in the night after it."""
    runs: list[datetime] = []

    def hear(event: JobExecutionEvent) -> None:
        if event.job_id == "books":
            runs.append(event.scheduled_run_time)

    with server(start=change - timedelta(days=2, hours=12)) as timerd:
        both = [_process(timerd), _process(timerd)]
        for each in both:
            each.add_listener(hear, EVENT_JOB_EXECUTED)
        timerd.advance(days=4)
        for each in both:
            each.shutdown()
    return sorted(runs)


def _process(timerd: SyncServer) -> BackgroundScheduler:
    """It has begun to work when a job of this moment has run."""
    scheduler = jobs.make_scheduler(timerd.connect_options)
    scheduler.start()
    jobs.add_jobs(scheduler)
    jobs.here.clear()
    scheduler.add_job(jobs.say_here, "date", run_date=timerd.now)
    if not jobs.here.wait(PATIENCE_S):
        raise TimeoutError("No job has run: is the server reached?")
    return scheduler
