"""One typed task: called as the function that it is, or scheduled by the arguments of a later call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from timerd.sdk.values import ConflictPolicy, Item, Span, TaskOptions, invalid
from timerd.tasks.arguments import Arguments

if TYPE_CHECKING:
    from timerd.sdk.scheduling import Client
    from timerd.sdk.values import Task

# By which a worker knows the function, where a queue has several.
LABEL = "task"
CONTENT_TYPE = "application/json"
Params = ParamSpec("Params")
Value = TypeVar("Value")
# The arguments of a call by name, and when: an instant, or a span from now.
LaterCall = tuple[Mapping[str, object], "datetime | Span"]


class TypedTask(Generic[Params, Value]):
    """A typed task is a function that can also be called later: `await remind.schedule(user=7, delay=60)`.

    Called as it is, it is the function. `Tasks.task` makes it.

    Args:
        client: who gives the client that schedules it.
        function: the function, with annotated arguments.
        queue: the queue of its tasks.
        name: the name by which workers know it.
    """

    __name__: str

    def __init__(self, client: Callable[[], Client], function: Callable[Params, Value], queue: str, name: str) -> None:
        self.function = function
        self.queue = queue
        self.name = name
        self.arguments = Arguments(function)
        self._client = client
        update_wrapper(self, function)

    def __call__(self, *positional: Params.args, **named: Params.kwargs) -> Value:
        """The function is called now, here."""
        return self.function(*positional, **named)

    async def schedule(
        self,
        *positional: object,
        at: datetime | None = None,
        delay: Span | None = None,
        key: str | None = None,
        on_conflict: ConflictPolicy | str = ConflictPolicy.REJECT,
        request_id: str | None = None,
        options: TaskOptions | None = None,
        **named: object,
    ) -> Task:
        """The call stores a task that calls the function with these arguments at its fire time.

        Args:
            positional: arguments of the function.
            at: the fire time, a datetime with a zone. Give either `at` or `delay`.
            delay: the time from now to the fire time, a timedelta or seconds.
            key: as for `Client.schedule`. Default none.
            on_conflict: as for `Client.schedule`. Default reject.
            request_id: as for `Client.schedule`. Default a new one.
            options: as for `Client.schedule`; the label "task" and the content type are added. Default nothing.
            named: arguments of the function by name.

        Raises:
            InvalidTask: the arguments are not those of the function (`field` names the first one), or no client is
                bound.
            AlreadyExists, Aborted: as for `Client.schedule`.
        """
        client, payload = self._client(), self.arguments.to_json(positional, named)
        return await client.schedule(
            self.queue,
            payload,
            at=at,
            delay=delay,
            key=key,
            on_conflict=on_conflict,
            request_id=request_id,
            options=self._options(options),
        )

    async def call(
        self,
        *positional: object,
        timeout: Span = 30.0,  # noqa: ASYNC109 - as for Client.call
        options: TaskOptions | None = None,
        **named: object,
    ) -> Any:  # noqa: ANN401 - what the function returns; of a coroutine function its type is another one
        """The call has a worker call the function at once, and returns what it returns.

        Args:
            positional: arguments of the function.
            timeout: as for `Client.call`. Default 30 s.
            options: as for `schedule`. Default nothing.
            named: arguments of the function by name.

        Raises:
            InvalidTask: as for `schedule`.
            CallFailed, CallExpired: as for `Client.call`.
            ValueError: the worker has another version of the function, which returns something else.
        """
        client, payload = self._client(), self.arguments.to_json(positional, named)
        result = await client.call(self.queue, payload, timeout=timeout, options=self._options(options))
        return None if result is None else self.arguments.result_from_json(result)

    async def schedule_many(self, calls: Iterable[LaterCall], *, options: TaskOptions | None = None) -> list[Task]:
        """The call stores many tasks, and returns them in the order of the calls.

        Args:
            calls: pairs of the arguments by name and an instant or a span from now:
                `[({"user": 7}, timedelta(hours=1))]`.
            options: what all of them have in common. Default nothing.

        Raises:
            InvalidTask: an argument is wrong: then none is stored. Or no client is bound.
            PartlyStored: as for `Client.schedule_many`.
        """
        items = list(map(self._item, calls))
        return list(await self._client().schedule_many(self.queue, items, options=self._options(options)))

    def payload(self, *positional: object, **named: object) -> bytes:
        """The JSON of the arguments, for callers that schedule it in another way.

        Args:
            positional: arguments of the function.
            named: arguments of the function by name.

        Raises:
            InvalidTask: the arguments are not those of the function.
        """
        return self.arguments.to_json(positional, named)

    def _item(self, call: LaterCall) -> Item:
        """Raises InvalidTask."""
        try:
            arguments, when = call
            given = dict(arguments)
        except (TypeError, ValueError):
            wrong = f"A call is a pair of the arguments by name and when, not {call!r:.200}"
            raise invalid(f'{wrong}: write `({{"user": 7}}, timedelta(hours=1))`.', "calls") from None
        payload = self.arguments.to_json((), given)
        return Item(payload, at=when) if isinstance(when, datetime) else Item(payload, delay=when)

    def _options(self, given: TaskOptions | None) -> TaskOptions:
        given = given or TaskOptions()
        labels = dict(given.labels or {})
        if labels.setdefault(LABEL, self.name) != self.name:
            raise invalid(f"The label {LABEL!r} says which function a task calls: choose another name.", "labels")
        return replace(given, labels=labels, content_type=CONTENT_TYPE)
