"""The messages of an application that wait in timerd, each with the key `celery/<task id>`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kombu.exceptions import OperationalError

from timerd.client import (
    CancelOutcome,
    ConflictPolicy,
    ConnectOptions,
    InvalidTask,
    NotFound,
    SyncClient,
    TaskOptions,
    TimerdError,
)
from timerd.contrib.celery.messages import Message

_KEY = "celery/"


class WaitingMessages:
    """Stores and cancels them. Errors are those that users of Celery know.

    Args:
        options: where timerd is.
        queue: the queue in which they wait.
    """

    def __init__(self, options: ConnectOptions, queue: str) -> None:
        self._options = options
        self._queue = queue
        # Of the process that made it: a pool of Celery's forks after the application is made.
        self._opened: tuple[int, SyncClient] = (0, SyncClient(options))

    def _client(self) -> SyncClient:
        process, client = self._opened
        if process != os.getpid():
            client = SyncClient(self._options)
            self._opened = (os.getpid(), client)
        return client

    def close(self) -> None:
        """The connection of this process ends; the next call opens another one."""
        process, client = self._opened
        if process == os.getpid():
            self._opened = (0, client)
            client.close()

    def schedule(self, task_id: str, message: Message, when: Mapping[str, Any], options: TaskOptions) -> None:
        """The message waits in place of an earlier one of the same task: a retry has the id of the task that runs,
        whose delivery may be just about to be acknowledged.

        Args:
            task_id: the id of Celery's task.
            message: what is published then.
            when: `at` or `delay`.
            options: what the task of timerd has beside them.

        Raises:
            OperationalError: timerd was not reached, or could not take it.
            InvalidTask: the message is too long, or the instant out of range.
        """
        with _errors_of_kombu():
            self._client().schedule(
                self._queue,
                message.to_bytes(),
                key=_KEY + task_id,
                on_conflict=ConflictPolicy.REPLACE,
                options=options,
                **when,
            )

    def cancel(self, task_id: str) -> Message | None:
        """The message that is not published any more; None where there is none, or it is being published.

        Args:
            task_id: the id of Celery's task.

        Raises:
            OperationalError: timerd was not reached.
        """
        with _errors_of_kombu():
            try:
                task = self._client().get(key=_KEY + task_id)
                outcome = self._client().cancel(task.id)
            except NotFound:
                return None
        return Message.of_bytes(task.payload) if outcome is CancelOutcome.CANCELLED else None


@contextmanager
def _errors_of_kombu() -> Iterator[None]:
    try:
        yield
    except InvalidTask:
        # Trying again does not help, and this is what callers try again at.
        raise
    except TimerdError as error:
        raise OperationalError(f"timerd: {error}") from error
