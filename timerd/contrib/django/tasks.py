"""A backend of Django's own tasks: `enqueue` writes a row into the outbox, in the transaction that is open.

    TASKS = {"default": {"BACKEND": "timerd.contrib.django.tasks.TimerdBackend"}}

So a task of a transaction that rolls back is never run, and one that was committed is. `manage.py timerd_worker` runs
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS
from django.utils import timezone
from django.utils.crypto import get_random_string

from timerd.contrib.django import outbox
from timerd.contrib.django.task_api import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultStatus,
    task_enqueued,
)
from timerd.contrib.django.task_messages import CONTENT_TYPE, TaskMessage
from timerd.outbox.entries import DEFAULT_NAMESPACE
from timerd.sdk.values import InvalidTask as InvalidField
from timerd.sdk.values import RetryPolicy, name

__all__ = ["TimerdBackend"]
KEY = "django/"
# Django has -100 to 100, timerd 0 to 10.
_LEVELS = 20
_OPTIONS = frozenset({"using", "namespace", "max_attempts"})
_MOST_LABEL_CHARS = 256


class TimerdBackend(BaseTaskBackend):  # type: ignore[misc]  # Django has no types
    """Tasks with `run_after`, priorities and queues; of plain functions and coroutines.

    Results are not kept: what a task returns is not stored anywhere, and `get_result` says so.

    Args:
        alias: its name in the setting TASKS.
        params: what stands there. Of OPTIONS: `using` (alias of the database whose outbox it is, default "default"),
            `namespace` (of timerd, default "default"), `max_attempts` (how often a task is tried that raises; default
            the server's policy).

    Raises:
        ImproperlyConfigured: OPTIONS has something else.
    """

    supports_defer = True
    supports_async_task = True
    supports_priority = True
    supports_get_result = False

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        if unknown := set(self.options) - _OPTIONS:
            raise ImproperlyConfigured(
                f"TASKS[{alias!r}]['OPTIONS'] has {sorted(unknown)}: timerd's backend knows {sorted(_OPTIONS)}."
            )
        self.namespace: str = self.options.get("namespace", DEFAULT_NAMESPACE)
        self.using: str = self.options.get("using", DEFAULT_DB_ALIAS)
        most = self.options.get("max_attempts")
        self._retry = RetryPolicy(max_attempts=most) if most is not None else None

    def validate_task(self, task: Task) -> None:
        """As Django's, and the queue is one that timerd can have.

        Args:
            task: the task.

        Raises:
            InvalidTask: of Django's, with a sentence.
        """
        super().validate_task(task)
        try:
            name(task.queue_name, "queue")
        except InvalidField as wrong:
            raise InvalidTask(str(wrong)) from wrong

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        """The task is run when the transaction is committed, and not before its `run_after`.

        Args:
            task: the task.
            args: its arguments, which JSON can have.
            kwargs: those with names.

        Returns:
            A result in the state READY. `outbox.cancel("django/" + result.id)` takes the task back.

        Raises:
            InvalidTask: the task cannot be enqueued here.
            TypeError: an argument has no JSON.
        """
        self.validate_task(task)
        now = timezone.now()
        result = self.result(task, get_random_string(32), args, kwargs, now)
        changes = {"priority": task.priority, "queue_name": task.queue_name}
        message = TaskMessage(result.id, task.module_path, result.args, result.kwargs, _in_utc(now), changes)
        outbox.schedule(
            task.queue_name,
            message.to_bytes(),
            at=_in_utc(task.run_after or now),
            key=KEY + result.id,
            namespace=self.namespace,
            using=self.using,
            labels={"task": task.module_path[:_MOST_LABEL_CHARS]},
            content_type=CONTENT_TYPE,
            priority=level_of(task.priority),
            retry=self._retry,
        )
        task_enqueued.send(type(self), task_result=result)
        return result

    def result(
        self, task: Task, result_id: str, args: Sequence[Any], kwargs: Mapping[str, Any], enqueued_at: datetime
    ) -> TaskResult:
        """What Django says of a task that waits.

        Args:
            task: the task.
            result_id: its id.
            args: its arguments.
            kwargs: those with names.
            enqueued_at: when it was enqueued.
        """
        return TaskResult(
            task=task,
            id=result_id,
            status=TaskResultStatus.READY,
            enqueued_at=enqueued_at,
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=list(args),
            kwargs=dict(kwargs),
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )


def level_of(priority: int) -> int:
    """The priority in timerd of one of Django's, whose default is in the middle."""
    return (priority + 100) // _LEVELS


def _in_utc(moment: datetime) -> datetime:
    """One without a zone is of the project's, as everywhere in Django where USE_TZ is off."""
    aware = timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    return aware.astimezone(UTC)
