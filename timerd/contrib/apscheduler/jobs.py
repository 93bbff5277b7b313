"""A job of APScheduler as the payload of a task: JSON, with the function by its name and no pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from apscheduler.job import Job
from apscheduler.jobstores.base import TransientJobError
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from timerd.contrib.apscheduler.times import NotKept, described, spec_of, trigger_of
from timerd.sdk.values import SpecKeywords

CONTENT_TYPE = "application/vnd.timerd.apscheduler+json"
# What APScheduler sets where nobody says anything. Taken at its word it drops whatever a process is late for.
GRACE_OF_NOBODY_S = 1
_VERSION = 1
# How long after it was made a trigger still counts as one that counts from now.
_JUST_MADE = timedelta(minutes=1)
# timerd counts in milliseconds.
_ROUNDED = timedelta(milliseconds=1)
_FIELDS = ("id", "func", "args", "kwargs", "name", "executor", "misfire_grace_time", "coalesce", "max_instances")


class Runs(NamedTuple):
    """When a job comes.

    Args:
        spec: the keywords of `Schedules.create`.
        is_now: whether it comes now as well.
    """

    spec: SpecKeywords
    is_now: bool


def payload_of(job: Any, *, is_retried: bool) -> bytes:  # noqa: ANN401 - APScheduler has no types
    """What is stored of a job.

    Args:
        job: the job.
        is_retried: whether a run that raises is tried again.

    Raises:
        TransientJobError: its function has no name by which another process finds it.
        NotKept: its arguments have no JSON.
    """
    if not job.func_ref:
        raise TransientJobError(job.id)
    state = job.__getstate__()
    kept = {name: state[name] for name in _FIELDS}
    kept["args"] = list(kept["args"])
    kept["trigger"] = described(job.trigger)
    for name in ("args", "kwargs"):
        if not _has_json(kept[name]):
            raise NotKept(
                f"The {name} of the job {job.id!r} do not come back from JSON as they are: {kept[name]!r:.200}. "
                "Give texts, numbers, lists and dicts, as the id of a row in place of the row."
            )
    return json.dumps({"v": _VERSION, **kept, "is_retried": is_retried}).encode()


def _has_json(value: Any) -> bool:  # noqa: ANN401 - arguments of a user
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError):
        return False


def content_of(payload: bytes) -> dict[str, Any]:
    """What `payload_of` has stored.

    Args:
        payload: that of a task or a schedule.

    Raises:
        ValueError: it is no such payload, or of a later release.
    """
    try:
        kept: dict[str, Any] = json.loads(payload)
        version = kept["v"]
    except (KeyError, TypeError, ValueError) as wrong:
        raise ValueError(f"This payload is no job that a TimerdJobStore has stored: {wrong!r}.") from wrong
    if version != _VERSION:
        raise ValueError(f"This job has the form {version!r}, of a later release: upgrade timerd here.")
    return kept


def job_of(kept: Mapping[str, Any], next_run_time: datetime | None) -> Any:  # noqa: ANN401 - APScheduler has no types
    """The job, whose function is imported.

    Args:
        kept: what `content_of` has returned.
        next_run_time: when it comes next; None while it is paused.

    Raises:
        LookupError: its function is not found here.
    """
    job = Job.__new__(Job)
    trigger = trigger_of(kept["trigger"])
    state = {name: kept[name] for name in _FIELDS}
    job.__setstate__({**state, "version": 1, "trigger": trigger, "next_run_time": next_run_time})
    return job


def check(job: Any, *, any_instances: bool) -> None:  # noqa: ANN401 - APScheduler has no types
    """The call looks whether timerd would do as the job says.

    Args:
        job: the job.
        any_instances: whether more than one run at a time may be any number.

    Raises:
        NotKept: it would not.
    """
    if job.executor != "default":
        raise NotKept(
            f"The job {job.id!r} names the executor {job.executor!r}, and the threads of a worker run it: leave it out."
        )
    if job.max_instances > 1 and not any_instances and not is_once(job):
        raise NotKept(
            f"The job {job.id!r} may have {job.max_instances} runs at a time, and timerd counts to one: give "
            "max_instances=1, or TimerdJobStore(..., any_instances=True), by which more than 1 means any number."
        )
    if is_once(job) and job.next_run_time is None:
        raise NotKept(f"The job {job.id!r} comes once, and such a one cannot be paused: remove it, and add it anew.")


def is_once(job: Any) -> bool:  # noqa: ANN401 - APScheduler has no types
    return isinstance(job.trigger, DateTrigger)


def grace_of(kept: Mapping[str, Any]) -> int | None:
    """How late a run may begin, in seconds; None for however late."""
    grace_s: int | None = kept["misfire_grace_time"]
    return None if grace_s == GRACE_OF_NOBODY_S else grace_s


def runs_of(job: Any, now: datetime) -> Runs:  # noqa: ANN401 - APScheduler has no types
    """When a job that comes again comes. A `next_run_time` of its own is its first instant; an interval counts from it.

    Args:
        job: the job, whose trigger this may move.
        now: the time, with a zone.

    Raises:
        NotKept: timerd has no such times.
    """
    first = job.next_run_time
    if first is None or _is_of_trigger(job.trigger, first, now):
        return Runs(_named(job), False)
    is_interval = isinstance(job.trigger, IntervalTrigger)
    if is_interval:
        job.trigger.start_date = first
    spec = _named(job)
    if first <= now:
        if is_interval:
            # The one of this moment is asked for by itself.
            spec["start"] = first + job.trigger.interval
        return Runs(spec, True)
    spec["start"] = first
    if job.trigger.get_next_fire_time(None, first) != first:
        spec["at"] = [first.astimezone(UTC)]
    return Runs(spec, False)


def _named(job: Any) -> SpecKeywords:  # noqa: ANN401 - APScheduler has no types
    try:
        return spec_of(job.trigger)
    except NotKept as why:
        raise NotKept(f"The job {job.id!r} is not kept: {why}.") from None


def _is_of_trigger(trigger: Any, first: datetime, now: datetime) -> bool:  # noqa: ANN401 - APScheduler has no types
    """Whether it is what the trigger says, by itself or with its jitter."""
    if isinstance(trigger, IntervalTrigger):
        since: timedelta = first - trigger.start_date + _ROUNDED
        away: timedelta = since % trigger.interval
        return since >= timedelta(0) and away <= timedelta(seconds=trigger.jitter or 0) + 2 * _ROUNDED
    following = trigger.get_next_fire_time(None, now)
    return following is not None and abs(following - first) <= timedelta(seconds=trigger.jitter or 0)


def keep_rhythm(job: Any, before: Mapping[str, Any], now: datetime) -> None:  # noqa: ANN401 - APScheduler has no types
    """An interval that counts from now goes on as it was, where it is as long: else each start of a process that adds
    its jobs anew would put it off.

    Args:
        job: the job as it is to be, whose trigger this may move.
        before: the job as it was, as `content_of` returns it.
        now: the time, with a zone.
    """
    was, will = before["trigger"], job.trigger
    if was["kind"] != "interval" or type(will) is not IntervalTrigger:
        return
    if was["seconds"] != will.interval.total_seconds():
        return
    if not timedelta(0) <= now - (will.start_date - will.interval) <= _JUST_MADE:
        return
    is_first = job.next_run_time == will.start_date
    job.trigger = IntervalTrigger(
        seconds=was["seconds"],
        start_date=datetime.fromisoformat(was["start_date"]),
        end_date=will.end_date,
        timezone=will.timezone,
        jitter=will.jitter,
    )
    if is_first:
        job.next_run_time = job.trigger.get_next_fire_time(None, now)
