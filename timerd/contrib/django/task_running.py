"""A handler of a worker that runs Django's tasks: each in a thread, with signals, context and fresh connections."""

from __future__ import annotations

from traceback import format_exception
from typing import Any

from django.db import close_old_connections
from django.utils import timezone
from django.utils.module_loading import import_string

from timerd.contrib.django.task_api import Task, TaskContext, TaskError, TaskResultStatus, task_finished, task_started
from timerd.contrib.django.task_messages import TaskMessage
from timerd.contrib.django.tasks import TimerdBackend
from timerd.worker import Delivery, Reject


class TaskRuns:
    """Of one backend. What a task raises goes on to the worker, so it is tried again by its policy.

    Args:
        backend: whose tasks they are.
        worker_id: the name of this worker in `TaskResult.worker_ids`.
    """

    def __init__(self, backend: TimerdBackend, worker_id: str) -> None:
        self._backend = backend
        self._worker_id = worker_id

    def __call__(self, delivery: Delivery) -> None:
        """Runs the task of a delivery to its end.

        Args:
            delivery: as `worker.on` gives it.

        Raises:
            Reject: its payload is none of Django's tasks.
        """
        close_old_connections()
        try:
            result = self._begun(delivery)
            task_started.send(type(self._backend), task_result=result)
            try:
                self._call(result)
            except BaseException as error:
                _end(result, TaskResultStatus.FAILED, error)
                task_finished.send(type(self._backend), task_result=result)
                raise
            _end(result, TaskResultStatus.SUCCESSFUL)
            task_finished.send(type(self._backend), task_result=result)
        finally:
            close_old_connections()

    def _begun(self, delivery: Delivery) -> Any:  # noqa: ANN401 - Django has no types
        try:
            message = TaskMessage.of_bytes(delivery.payload)
        except ValueError as wrong:
            raise Reject(str(wrong)) from wrong
        task = import_string(message.path)
        if not isinstance(task, Task):
            raise TypeError(f"{message.path} is no task of Django's any more: keep the decorator, or the old name.")
        now = timezone.now()
        changed = task.using(backend=self._backend.alias, **message.changes)
        result = self._backend.result(changed, message.id, message.args, message.kwargs, message.enqueued_at)
        # Which worker made an earlier attempt is not known here.
        result.worker_ids.extend([""] * (delivery.attempt - 1) + [self._worker_id])
        _set(result, status=TaskResultStatus.RUNNING, started_at=now, last_attempted_at=now)
        return result

    def _call(self, result: Any) -> None:  # noqa: ANN401 - Django has no types
        context = (TaskContext(task_result=result),) if result.task.takes_context else ()
        _set(result, _return_value=result.task.call(*context, *result.args, **result.kwargs))


def _end(result: Any, status: Any, error: BaseException | None = None) -> None:  # noqa: ANN401 - Django has no types
    if error is not None:
        kind, trace = type(error), "".join(format_exception(error))
        path = f"{kind.__module__}.{kind.__qualname__}"
        result.errors.append(TaskError(exception_class_path=path, traceback=trace))
    _set(result, status=status, finished_at=timezone.now())


def _set(result: Any, **values: Any) -> None:  # noqa: ANN401 - Django has no types
    """As Django's own backends do it: results are frozen for everybody else."""
    for field, value in values.items():
        object.__setattr__(result, field, value)
