"""The typed tasks of a program, by queue: what a worker includes, and what a client schedules through."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from timerd.sdk.values import Delivery, TaskResult, invalid, queue_of_decorator
from timerd.sdk.working import Handler, HandlerThreads, Reject, check_plain, finished
from timerd.tasks.typed import CONTENT_TYPE, LABEL, Params, TypedTask, Value

if TYPE_CHECKING:
    from timerd.sdk.scheduling import Client

AnyTask = TypedTask[..., Any]


def _checked(client: Client) -> Client:
    """Raises InvalidTask."""
    if not inspect.iscoroutinefunction(getattr(client, "schedule", None)):
        raise invalid(
            f"`client` is a {type(client).__name__}, and typed tasks are scheduled with await: give a Client. Without "
            "asyncio, `SyncClient.schedule` takes the queue and the payload.",
            "client",
        )
    return client


class Tasks:
    """The tasks of a program: `@tasks.task("mails")` adds a function, `worker.include(tasks)` works them.

    A module that only schedules needs no worker, and one that only works needs no client.

    Args:
        client: the client that schedules them; `bind` may give it later. Default none.
    """

    def __init__(self, client: Client | None = None) -> None:
        self._client = None if client is None else _checked(client)
        self._queues: dict[str, dict[str, AnyTask]] = {}

    def bind(self, client: Client) -> None:
        """The client schedules the tasks from here on.

        Args:
            client: a client that is open.
        """
        self._client = _checked(client)

    @contextmanager
    def bound(self, client: Client) -> Iterator[None]:
        """The client schedules the tasks within the block, then the one of before: `with tasks.bound(client):`.

        Args:
            client: a client that is open.
        """
        before, self._client = self._client, _checked(client)
        try:
            yield
        finally:
            self._client = before

    def _given(self) -> Client:
        if self._client is None:
            raise invalid("These tasks have no client to be scheduled through: `tasks.bind(client)` first.", "client")
        return self._client

    def task(self, queue: str, *, name: str = "") -> Callable[[Callable[Params, Value]], TypedTask[Params, Value]]:
        """The decorator makes a function with annotated arguments a typed task: `@tasks.task("mails")`.

        The function is a coroutine function, or a plain one, which then runs in a thread. Its arguments travel as JSON.
        A parameter that is annotated with `Delivery` gets the delivery.

        Args:
            queue: the queue of its tasks; several functions may share one.
            name: by which workers know it; keep it when the function gets another name. Default the function's name.

        Raises:
            InvalidTask: the function has a parameter without annotation, without a name, or with one that `schedule`
                itself has; it is a generator function; the queue has a task of this name; or no queue is named.
        """

        queue = queue_of_decorator(queue, "task")

        def register(function: Callable[Params, Value]) -> TypedTask[Params, Value]:
            check_plain(function, queue)
            made = TypedTask(self._given, function, queue, name or function.__name__)
            of_queue = self._queues.setdefault(made.queue, {})
            if made.name in of_queue:
                raise invalid(f"The queue {queue!r} has a task {made.name!r} already: give this one a name.", "name")
            of_queue[made.name] = made
            return made

        return register

    def handlers(self, concurrency: int) -> dict[str, Handler]:
        """What a worker calls for each queue.

        Args:
            concurrency: how many calls of plain functions of a queue run at a time.
        """
        return {queue: QueueHandler(queue, of_queue, concurrency) for queue, of_queue in self._queues.items()}


class QueueHandler:
    """Calls the function that a delivery names."""

    def __init__(self, queue: str, tasks: dict[str, AnyTask], concurrency: int) -> None:
        self._queue = queue
        self._tasks = tasks
        self._threads = HandlerThreads(concurrency)
        # Warnings and traces name what was written, not what calls it.
        self.__module__ = next(iter(tasks.values())).function.__module__
        self.__qualname__ = ", ".join(task.function.__qualname__ for task in tasks.values())

    async def __call__(self, delivery: Delivery) -> TaskResult | None:
        task = self._task_of(delivery)
        try:
            arguments = task.arguments.from_json(delivery.payload, delivery)
        except ValueError as error:
            # Another attempt would find the same payload.
            raise Reject(str(error)) from None
        if inspect.iscoroutinefunction(task.function):
            returned = await task.function(**arguments)
        else:
            inside = contextvars.copy_context().run
            returned = await finished(await self._threads.call(partial(inside, partial(task.function, **arguments))))
        if delivery.keep_result is None:
            return None
        return TaskResult(task.arguments.result_to_json(returned), CONTENT_TYPE)

    def _task_of(self, delivery: Delivery) -> AnyTask:
        """One that this worker does not know may be known to a newer one: the attempt fails, and another follows."""
        called = delivery.labels.get(LABEL, "")
        if not called and len(self._tasks) == 1:
            return next(iter(self._tasks.values()))
        if called not in self._tasks:
            known = ", ".join(sorted(self._tasks))
            raise LookupError(
                f"This worker has no task {called!r} for the queue {self._queue!r}: it knows {known}. The label "
                f"{LABEL!r} says which one is meant."
            )
        return self._tasks[called]
