"""`TimerdJobStore`: a job store of APScheduler 3 that keeps jobs in timerd, which says when they come.

A job of one date is a task with a key, one that comes again is a schedule. The scheduler is told of nothing that is
due: runs come to the workers of the queue.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Unpack

from apscheduler.events import EVENT_SCHEDULER_STARTED
from apscheduler.jobstores.base import BaseJobStore, ConflictingIdError, JobLookupError
from apscheduler.schedulers.base import STATE_STOPPED

from timerd.client import (
    AlreadyExists,
    CancelOutcome,
    ClientKeywords,
    ConnectOptions,
    FailedPrecondition,
    InvalidTask,
    NotFound,
    RetryPolicy,
    Schedule,
    ScheduleState,
    SyncClient,
    TaskInfo,
    TaskOptions,
    TaskState,
)
from timerd.contrib.apscheduler.jobs import (
    CONTENT_TYPE,
    check,
    content_of,
    grace_of,
    is_once,
    job_of,
    keep_rhythm,
    payload_of,
    runs_of,
)
from timerd.contrib.apscheduler.running import DEFAULT_QUEUE, JobRunner, RunnerThread
from timerd.contrib.apscheduler.times import NotKept
from timerd.sdk.transport import connect_options
from timerd.sdk.values import name, whole_number

_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._/:-]+")
_MOST_ID_CHARS = 64
_WAITS = (TaskState.PENDING, TaskState.RETRYING)
# An attempt may take as long as timerd lets it: APScheduler ends none.
_ONCE = RetryPolicy(attempt_timeout=timedelta(days=7))
log = logging.getLogger("timerd.apscheduler")


class TimerdJobStore(BaseJobStore):  # type: ignore[misc] # APScheduler has no types
    """A job store keeps the jobs of any number of schedulers in timerd, and each run is given to one of them.

    Use it as `BackgroundScheduler(jobstores={"default": TimerdJobStore("127.0.0.1:7400")})`.

    Args:
        target: the address of timerd as HOST:PORT, or a `ConnectOptions`. Default 127.0.0.1:7400.
        queue: the queue of the runs; schedulers with the same one share their jobs. Default "apscheduler".
        concurrency: how many jobs this process runs at a time, in threads; 0 where a `JobRunner` of another process
            runs them. Default 10.
        retry: when a run that raises is tried again. Default never: it is a dead letter at once.
        any_instances: whether `max_instances` above 1 stands for any number. Default not: such a job is refused.
        modules: only functions of these modules are run here, and of what is in them. Default whatever a job names.
        options: the other fields of `ConnectOptions` as keywords.

    Raises:
        InvalidTask: an option is of a wrong form.
    """

    def __init__(
        self,
        target: str | ConnectOptions = "127.0.0.1:7400",
        *,
        queue: str = DEFAULT_QUEUE,
        concurrency: int = 10,
        retry: RetryPolicy | None = None,
        any_instances: bool = False,
        modules: Sequence[str] | None = None,
        **options: Unpack[ClientKeywords],
    ) -> None:
        self._connection = connect_options("TimerdJobStore", target, options, ClientKeywords.__optional_keys__)
        self._queue = name(queue, "queue")
        self._concurrency = whole_number(concurrency, "concurrency", 0, 1_000)
        self._retry = retry
        self._any_instances = any_instances
        self._modules = modules
        self._client = SyncClient(self._connection)
        self._thread: RunnerThread | None = None
        # Ids of jobs that were added before `start`, and are added again where that has failed at another one.
        self._of_start: set[str] = set()

    def start(self, scheduler: Any, alias: str) -> None:  # noqa: ANN401 - APScheduler has no types
        """As every job store; the runs that are due come once the scheduler has started, with all its jobs."""
        super().start(scheduler, alias)
        if scheduler.state != STATE_STOPPED:
            self._begin()
            return
        # Of a start that has failed.
        scheduler.remove_listener(self._has_started)
        scheduler.add_listener(self._has_started, EVENT_SCHEDULER_STARTED)

    def _has_started(self, _event: object) -> None:
        self._of_start.clear()
        self._begin()

    def _begin(self) -> None:
        if self._concurrency and self._thread is None:
            runner = JobRunner(queue=self._queue, concurrency=self._concurrency, modules=self._modules)
            self._thread = RunnerThread(runner.serving(self._scheduler, self._alias), self._connection)

    def shutdown(self) -> None:
        """As every job store; runs that have begun come to their end."""
        if self._thread is not None:
            self._thread.stop()
            self._thread = None
        self._client.close()

    # -- what a scheduler does with jobs ------------------------------------------------------------------------------

    def add_job(self, job: Any) -> None:  # noqa: ANN401 - APScheduler has no types
        """As every job store, and raises NotKept for what timerd would not do as the job says."""
        if job.id in self._of_start:
            self._put(job)
            return
        earlier = self._any_schedule(self._id(job.id))
        if self._task(job.id) or _may_come(earlier):
            raise ConflictingIdError(job.id)
        try:
            # One that is over stays until it is deleted, and its id may be used again.
            self._put(job, on_conflict="update" if earlier else "reject")
        except AlreadyExists:
            raise ConflictingIdError(job.id) from None
        if self._scheduler.state == STATE_STOPPED:
            self._of_start.add(job.id)

    def update_job(self, job: Any) -> None:  # noqa: ANN401 - APScheduler has no types
        """As `add_job`, of one that is there."""
        schedule, task = self._schedule(job.id), self._task(job.id)
        if not schedule and not task:
            raise JobLookupError(job.id)
        if schedule:
            keep_rhythm(job, content_of(schedule.payload), datetime.now(UTC))
        self._put(job)
        # It has become one of the other kind.
        if schedule and is_once(job):
            self._delete(job.id)
        if task and not is_once(job):
            self._cancel(job.id)

    def remove_job(self, job_id: str) -> None:
        """As every job store. A run that has begun goes on."""
        if not any([self._delete(job_id), self._cancel(job_id)]):
            raise JobLookupError(job_id)

    def remove_all_jobs(self) -> None:
        """As every job store: the jobs of all schedulers that share the queue."""
        for kept, _ in self._all():
            self._delete(kept["id"])
            self._cancel(kept["id"])

    def lookup_job(self, job_id: str) -> Any:  # noqa: ANN401 - APScheduler has no types
        """As every job store."""
        if schedule := self._schedule(job_id):
            return self._job(content_of(schedule.payload), _next_run(schedule))
        task = self._task(job_id)
        return self._job(content_of(task.payload), task.fire_time) if task else None

    def get_all_jobs(self) -> list[Any]:
        """As every job store; one whose function is not found here is left out, with a line in the log."""
        found = []
        for kept, next_run_time in self._all():
            try:
                found.append(self._job(kept, next_run_time))
            except (LookupError, ValueError) as why:
                log.error("The job %r cannot be shown here: %s", kept["id"], why)
        never = datetime.max.replace(tzinfo=UTC)
        return sorted(found, key=lambda job: job.next_run_time or never)

    def get_due_jobs(self, now: datetime) -> list[Any]:
        """None: what is due comes from timerd."""
        return []

    def get_next_run_time(self) -> datetime | None:
        """None: the scheduler has nothing to wait for."""
        return None

    # -- what timerd has of it ----------------------------------------------------------------------------------------

    def _put(self, job: Any, on_conflict: str = "") -> None:  # noqa: ANN401 - APScheduler has no types
        try:
            self._put_as_said(job, on_conflict)
        except InvalidTask as why:
            raise NotKept(f"The job {job.id!r} is not kept: {why}") from why

    def _put_as_said(self, job: Any, on_conflict: str) -> None:  # noqa: ANN401 - APScheduler has no types
        check(job, any_instances=self._any_instances)
        # First, since it may move the trigger, which is part of the payload.
        runs = None if is_once(job) else runs_of(job, datetime.now(UTC))
        payload = payload_of(job, is_retried=self._retry is not None)
        labels = {"job": job.name[:256]}
        options = TaskOptions(labels=labels, content_type=CONTENT_TYPE, retry=self._retry or _ONCE)
        if runs is None:
            key = self._id(job.id)
            self._client.schedule(
                self._queue,
                payload,
                at=job.next_run_time,
                key=key,
                on_conflict=on_conflict or "replace",
                options=options,
            )
            return
        grace_s = grace_of(content_of(payload))
        made = self._client.schedules.create(
            self._id(job.id),
            queue=self._queue,
            payload=payload,
            catch_up="latest" if job.coalesce else "all",
            catch_up_window=None if job.coalesce else grace_s,
            overlap="skip" if job.max_instances == 1 else "allow",
            labels=labels,
            on_conflict=on_conflict or "update",
            options=options,
            **runs.spec,
        )
        self._let_run(made, is_paused=job.next_run_time is None, is_now=runs.is_now)

    def _let_run(self, schedule: Schedule, *, is_paused: bool, is_now: bool) -> None:
        if is_paused and schedule.state is not ScheduleState.PAUSED:
            self._client.schedules.pause(schedule.id)
        if not is_paused and schedule.state is ScheduleState.PAUSED:
            self._client.schedules.resume(schedule.id)
        if is_now:
            try:
                self._client.schedules.trigger(schedule.id)
            except FailedPrecondition:
                log.info("%s runs already, or is about to: it is not started once more.", schedule.id)

    def _all(self) -> Iterator[tuple[dict[str, Any], datetime | None]]:
        """Of each job what is kept, and when it comes next."""
        prefix = f"{self._queue}/"
        for each in self._client.schedules.list(prefix=prefix):
            # A list has neither payload nor instants.
            schedule = self._any_schedule(each.id)
            if schedule is not None and _may_come(schedule):
                yield content_of(schedule.payload), _next_run(schedule)
        for task in self._client.list(queue=self._queue, states=_WAITS, include_payload=True):
            if task.key.startswith(prefix):
                yield content_of(task.payload), task.fire_time

    def _job(self, kept: dict[str, Any], next_run_time: datetime | None) -> Any:  # noqa: ANN401 - as above
        local = None if next_run_time is None else next_run_time.astimezone(self._scheduler.timezone)
        job = job_of(kept, local)
        # As the stores of APScheduler itself do: a job that was read knows of neither.
        for attribute, value in (("_scheduler", self._scheduler), ("_jobstore_alias", self._alias)):
            setattr(job, attribute, value)
        return job

    def _id(self, job_id: str) -> str:
        """Of its schedule, and the key of its task: the id, as far as these can have it."""
        plain = _NOT_IN_IDS.sub("-", job_id)[:_MOST_ID_CHARS]
        digest = blake2b(job_id.encode(), digest_size=4).hexdigest()
        return f"{self._queue}/{plain if plain == job_id else f'{plain}-{digest}'}"

    def _schedule(self, job_id: str) -> Schedule | None:
        """None where there is none that may come again."""
        found = self._any_schedule(self._id(job_id))
        return found if _may_come(found) else None

    def _any_schedule(self, schedule_id: str) -> Schedule | None:
        try:
            return self._client.schedules.get(schedule_id)
        except NotFound:
            return None

    def _task(self, job_id: str) -> TaskInfo | None:
        try:
            task = self._client.get(key=self._id(job_id))
        except NotFound:
            return None
        return task if task.state in _WAITS else None

    def _delete(self, job_id: str) -> bool:
        try:
            self._client.schedules.delete(self._id(job_id))
        except NotFound:
            return False
        return True

    def _cancel(self, job_id: str) -> bool:
        try:
            return self._client.cancel(key=self._id(job_id)) is CancelOutcome.CANCELLED
        except NotFound:
            return False


def _may_come(schedule: Schedule | None) -> bool:
    return schedule is not None and schedule.state is not ScheduleState.DONE


def _next_run(schedule: Schedule) -> datetime | None:
    """None while it is paused."""
    if schedule.state is ScheduleState.PAUSED or not schedule.upcoming:
        return None
    return schedule.upcoming[0].instant
