"""A scheduler with a TimerdJobStore: its calls are those of APScheduler, and timerd keeps what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_JOB_MISSED, JobExecutionEvent
from apscheduler.jobstores.base import ConflictingIdError, JobLookupError, TransientJobError
from apscheduler.schedulers.background import BackgroundScheduler

import timerd.testing
from tests.contrib.apscheduler import jobs
from tests.contrib.apscheduler.jobs import fail, report, report_later
from tests.process.waiting import until
from timerd.client import RetryPolicy, ScheduleState, TaskState
from timerd.contrib.apscheduler import JobRunner, NotKept, TimerdJobStore
from timerd.worker import Worker

ENDED = EVENT_JOB_ERROR | EVENT_JOB_EXECUTED | EVENT_JOB_MISSED
Made = Callable[..., BackgroundScheduler]


@pytest.fixture
def server() -> Iterator[timerd.testing.SyncServer]:
    """Its clock begins now, for a scheduler has no other one."""
    with timerd.testing.server(start=datetime.now(UTC)) as server:
        jobs.made.clear()
        yield server


@pytest.fixture
def make(server: timerd.testing.SyncServer) -> Iterator[Made]:
    """Schedulers, each as if it were in a process of its own."""
    running = []

    def scheduler(**options: Any) -> BackgroundScheduler:  # noqa: ANN401 - those of a TimerdJobStore
        store = TimerdJobStore(server.connect_options, **options)
        made = BackgroundScheduler(timezone="Europe/Berlin", jobstores={"default": store})
        made.start()
        running.append(made)
        return made

    yield scheduler
    for each in running:
        each.shutdown()


@pytest.fixture
def scheduler(make: Made) -> BackgroundScheduler:
    """It runs nothing."""
    return make(concurrency=0)


def ended(scheduler: BackgroundScheduler) -> list[JobExecutionEvent]:
    """What its listener hears of runs."""
    heard: list[JobExecutionEvent] = []
    scheduler.add_listener(heard.append, ENDED)
    return heard


def soon(server: timerd.testing.SyncServer, **parts: float) -> datetime:
    return server.now + timedelta(**parts)


def test_jobs_run_at_their_instants_and_listeners_hear_of_it(server: timerd.testing.SyncServer, make: Made) -> None:
    scheduler = make()
    heard = ended(scheduler)
    scheduler.add_job(report, "date", run_date=soon(server, hours=1), args=["once"], id="once")
    scheduler.add_job(report_later, "date", run_date=soon(server, hours=2), kwargs={"name": "later"}, id="later")
    scheduler.add_job(fail, "date", run_date=soon(server, hours=3), id="fail")
    server.advance(minutes=59)
    assert jobs.made == []
    server.advance(hours=3)
    until(lambda: len(heard) == 3, "all have ended")
    assert sorted(jobs.made) == ["later, by a coroutine", "once"]
    became = {each.job_id: each.code for each in heard}
    assert became == {"once": EVENT_JOB_EXECUTED, "later": EVENT_JOB_EXECUTED, "fail": EVENT_JOB_ERROR}
    until(lambda: any(server.client.dead_letters()), "what has raised is a dead letter")
    [dead] = server.client.dead_letters()
    assert "no paper" in dead.last_error
    assert scheduler.get_jobs() == []


def test_of_two_schedulers_one_runs_a_job(server: timerd.testing.SyncServer, make: Made) -> None:
    both = [make(), make()]
    heard = [ended(each) for each in both]
    for each in both:
        for number in range(10):
            given = {"args": [str(number)], "id": f"job-{number}", "replace_existing": True}
            each.add_job(report, "date", run_date=soon(server, minutes=number + 1), **given)
    server.advance(hours=1)
    until(lambda: len(heard[0]) + len(heard[1]) == 10, "all have run")
    assert sorted(jobs.made) == [str(number) for number in range(10)]


def test_a_job_is_looked_at_changed_paused_and_removed(
    server: timerd.testing.SyncServer, scheduler: BackgroundScheduler
) -> None:
    job = scheduler.add_job(report, "cron", hour=9, args=["daily"], id="daily", name="the daily one")
    found = scheduler.get_job("daily")
    assert (found.name, found.args, str(found.trigger)) == ("the daily one", ["daily"], str(job.trigger))
    assert found.next_run_time == job.next_run_time
    scheduler.modify_job("daily", args=["weekly"])
    assert scheduler.get_job("daily").args == ["weekly"]
    assert scheduler.pause_job("daily").next_run_time is None
    assert scheduler.get_job("daily").next_run_time is None
    assert server.client.schedules.get("apscheduler/daily").state is ScheduleState.PAUSED
    assert scheduler.resume_job("daily").next_run_time == found.next_run_time
    moved = scheduler.reschedule_job("daily", trigger="interval", hours=2)
    # timerd counts in milliseconds.
    assert abs(scheduler.get_job("daily").next_run_time - moved.next_run_time) < timedelta(milliseconds=2)
    scheduler.remove_job("daily")
    assert scheduler.get_job("daily") is None
    with pytest.raises(JobLookupError):
        scheduler.remove_job("daily")


def test_what_came_again_may_come_once_and_the_other_way_round(
    server: timerd.testing.SyncServer, scheduler: BackgroundScheduler
) -> None:
    scheduler.add_job(report, "interval", hours=1, args=["x"], id="x")
    scheduler.reschedule_job("x", trigger="date", run_date=soon(server, days=1))
    assert [*server.client.schedules.list()] == []
    [task] = server.client.list(queue="apscheduler")
    assert task.key == "apscheduler/x"
    scheduler.reschedule_job("x", trigger="interval", hours=1)
    assert server.client.get(task.id).state is TaskState.CANCELLED
    assert [job.id for job in scheduler.get_jobs()] == ["x"]


def test_an_id_is_there_once(server: timerd.testing.SyncServer, scheduler: BackgroundScheduler) -> None:
    scheduler.add_job(report, "interval", hours=1, args=["x"], id="Ä x")
    with pytest.raises(ConflictingIdError):
        scheduler.add_job(report, "date", run_date=soon(server, days=1), args=["y"], id="Ä x")
    with pytest.raises(ConflictingIdError):
        scheduler.add_job(report, "interval", hours=1, args=["y"], id="Ä x")
    scheduler.add_job(report, "date", run_date=soon(server, days=1), args=["y"], id="Ä x", replace_existing=True)
    [job] = scheduler.get_jobs()
    assert (job.id, job.args) == ("Ä x", ["y"])
    scheduler.remove_all_jobs()
    assert scheduler.get_jobs() == []


def test_an_interval_is_not_put_off_by_processes_that_add_it_anew(
    server: timerd.testing.SyncServer, scheduler: BackgroundScheduler
) -> None:
    def add(**when: Any) -> Any:  # noqa: ANN401 - APScheduler has no types
        given = {"args": ["x"], "id": "x", "replace_existing": True}
        return scheduler.add_job(report, "interval", **when, **given)

    first = add(hours=1).next_run_time
    revision = server.client.schedules.get("apscheduler/x").revision
    assert add(hours=1).next_run_time == first
    assert server.client.schedules.get("apscheduler/x").revision == revision
    assert add(hours=1, start_date=soon(server, minutes=10)).next_run_time < first - timedelta(minutes=30)
    assert add(hours=2).next_run_time > first


def test_a_first_run_of_its_own(server: timerd.testing.SyncServer, make: Made) -> None:
    """`next_run_time=datetime.now()` is how APScheduler is told to begin at once."""
    scheduler, begin = make(), datetime.now(UTC)
    scheduler.add_job(report, "interval", hours=1, args=["now"], id="now", next_run_time=begin)
    scheduler.add_job(report, "cron", hour=9, args=["first"], id="first", next_run_time=soon(server, minutes=7))
    until(lambda: jobs.made == ["now"], "it runs at once")
    away = scheduler.get_job("now").next_run_time - begin
    # timerd counts in milliseconds.
    assert abs(away - timedelta(hours=1)) < timedelta(milliseconds=2)
    server.advance(minutes=8)
    until(lambda: jobs.made == ["now", "first"], "the other one has its own first run")
    assert scheduler.get_job("first").next_run_time.hour == 9


def test_a_run_that_begins_too_late_is_missed(server: timerd.testing.SyncServer, make: Made) -> None:
    """Of the clock of the machine, which stays: so the runs are of the past."""
    given = {"run_date": datetime.now(UTC) - timedelta(minutes=1)}
    scheduler = make()
    heard = ended(scheduler)
    scheduler.add_job(report, "date", args=["late"], id="late", misfire_grace_time=10, **given)
    until(lambda: len(heard) == 1, "it is looked at")
    # APScheduler's own default of a second is no limit that somebody has set.
    scheduler.add_job(report, "date", args=["however late"], id="any", **given)
    until(lambda: len(heard) == 2, "so is the other one")
    assert [each.code for each in heard] == [EVENT_JOB_MISSED, EVENT_JOB_EXECUTED]
    assert jobs.made == ["however late"]


def test_a_run_that_raises_is_tried_again_where_that_is_asked_for(
    server: timerd.testing.SyncServer, make: Made
) -> None:
    scheduler = make(retry=RetryPolicy(max_attempts=2, initial_backoff=60))
    heard = ended(scheduler)
    scheduler.add_job(fail, "date", run_date=soon(server, minutes=1), id="fail")
    server.advance(minutes=5)
    until(lambda: len(heard) == 2, "it has run twice")
    assert {each.code for each in heard} == {EVENT_JOB_ERROR}


def test_a_runner_without_a_scheduler(server: timerd.testing.SyncServer, scheduler: BackgroundScheduler) -> None:
    """And one of certain modules runs nothing else."""
    worker = Worker(server.connect_options)
    JobRunner(modules=["tests.contrib"]).attach(worker)
    scheduler.add_job(report, "date", run_date=soon(server, minutes=1), args=["there"])
    scheduler.add_job("os:getpid", "date", run_date=soon(server, minutes=2))
    with server.working(worker):
        server.advance(minutes=5)
    assert jobs.made == ["there"]
    [dead] = server.client.dead_letters()
    assert "os:getpid is not run here" in dead.last_error


@pytest.mark.parametrize(
    ("job", "error", "said"),
    [
        ({"func": lambda: None}, TransientJobError, "reference to the callable"),
        ({"func": report, "args": [object()]}, NotKept, "do not come back from JSON"),
        ({"func": report, "args": [(1, 2)]}, NotKept, "do not come back from JSON"),
        ({"func": report, "args": ["x"], "max_instances": 3}, NotKept, "any_instances=True"),
        ({"func": report, "args": ["x"], "executor": "processes"}, NotKept, "names the executor 'processes'"),
        ({"func": report, "args": ["x"], "trigger": "date", "next_run_time": None}, NotKept, "cannot be paused"),
        ({"func": report, "args": ["x"], "trigger": "cron", "week": 7}, NotKept, "The job 'no' is not kept: .*`week`"),
        ({"func": report, "args": ["x" * 80_000]}, NotKept, "The job 'no' is not kept: The payload has 80,"),
        ({"func": report, "args": ["x" * 80_000], "trigger": "date"}, NotKept, "The job 'no' is not kept: The payload"),
        ({"func": report, "args": ["x" * 2_000_000]}, NotKept, "The job 'no' is not kept: The payload has 2,000,"),
        ({"func": report, "args": ["x"], "name": "\udcff"}, NotKept, "The job 'no' is not kept: "),
    ],
)
def test_what_timerd_would_not_do_is_refused(
    job: dict[str, Any],
    error: type[Exception],
    said: str,
    server: timerd.testing.SyncServer,
    scheduler: BackgroundScheduler,
) -> None:
    trigger = job.pop("trigger", "interval")
    when = {"hours": 1} if trigger == "interval" else {}
    with pytest.raises(error, match=said):
        scheduler.add_job(job.pop("func"), trigger, id="no", **when, **job)
    assert [*server.client.schedules.list()] == []
    assert [*server.client.list()] == []


def test_a_bad_job_from_before_the_start_is_taken_away_and_the_others_start(
    server: timerd.testing.SyncServer,
) -> None:
    """APScheduler looks at none of them before. Until all are kept, nothing runs here."""
    store = TimerdJobStore(server.connect_options)
    scheduler = BackgroundScheduler(timezone="Europe/Berlin", jobstores={"default": store})
    scheduler.add_job(report, "date", run_date=soon(server, minutes=1), args=["good"], id="good")
    scheduler.add_job(report, "interval", hours=1, args=["every hour"], id="hourly")
    scheduler.add_job(report, "interval", hours=1, args=[object()], id="bad")
    for _ in range(2):
        with pytest.raises(NotKept, match="'bad' do not come back from JSON"):
            scheduler.start()
        assert not scheduler.running
        assert store._thread is None
    scheduler.remove_job("bad")
    scheduler.start()
    assert sorted(job.id for job in scheduler.get_jobs()) == ["good", "hourly"]
    with pytest.raises(ConflictingIdError):
        scheduler.add_job(report, "interval", hours=1, args=["again"], id="hourly")
    server.advance(minutes=2)
    until(lambda: jobs.made == ["good"], "the run of the good one")
    scheduler.shutdown()


def test_policies_become_those_of_schedules(server: timerd.testing.SyncServer, make: Made) -> None:
    scheduler = make(concurrency=0, any_instances=True)
    scheduler.add_job(report, "interval", hours=1, args=["x"], id="x", coalesce=False, misfire_grace_time=60)
    scheduler.add_job(report, "interval", hours=1, args=["y"], id="y", max_instances=3)
    x, y = (server.client.schedules.get(f"apscheduler/{each}") for each in "xy")
    assert (x.catch_up, x.overlap) == ("all", "skip")
    assert (y.catch_up, y.overlap) == ("latest", "allow")


def test_an_id_of_what_is_over_may_be_used_again(
    server: timerd.testing.SyncServer, scheduler: BackgroundScheduler
) -> None:
    scheduler.add_job(report, "interval", hours=1, end_date=soon(server, hours=2, minutes=1), args=["x"], id="x")
    server.advance(hours=3)
    assert scheduler.get_jobs() == []
    scheduler.add_job(report, "interval", hours=1, args=["again"], id="x")
    [job] = scheduler.get_jobs()
    assert job.args == ["again"]


def test_a_worker_takes_a_payload_of_somebody_else_as_a_dead_letter(server: timerd.testing.SyncServer) -> None:
    worker = Worker(server.connect_options)
    JobRunner().attach(worker)
    server.client.schedule("apscheduler", b"hello", delay=1)
    with server.working(worker):
        server.advance(seconds=2)
    [dead] = server.client.dead_letters()
    assert "no job that a TimerdJobStore has stored" in dead.last_error
