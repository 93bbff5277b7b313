"""What a task has beside its payload and its instant, as options: of `schedule`, and of `schedules create`, whose tasks
have the same."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import wraps
from typing import Annotated, Any

import typer

from timerd.commands.failures import WrongInput
from timerd.commands.times import parse_span
from timerd.model.task import MAX_ON_DEMAND_MS

_TASK, _RETRY = "Task", "Retry"


def _of_task(*names: str, **settings: Any) -> Any:  # noqa: ANN401 - as typer.Option
    return typer.Option(*names, rich_help_panel=_TASK, **settings)


def _of_retry(**settings: Any) -> Any:  # noqa: ANN401 - as above
    return typer.Option(rich_help_panel=_RETRY, **settings)


LimitKey = Annotated[str, _of_task(help="Whose task it is: those of a queue take turns by these.")]
Priority = Annotated[int, _of_task(min=0, max=10, help="A level is worth 64 s of waiting among due tasks.")]
ContentType = Annotated[str, _of_task(help="Handed to the worker, for example application/json.")]
ExpireIn = Annotated[str | None, _of_task(metavar="SPAN", help="Not delivered so long after its time.")]
SoftExpireIn = Annotated[str | None, _of_task(metavar="SPAN", help="Marked late so long after its time.")]
KeepResult = Annotated[str | None, _of_task(metavar="SPAN", help="Keep what its handler returns so long, up to 24h.")]
StallTimeout = Annotated[
    str | None, _of_task(metavar="SPAN", help="An attempt that says no progress so long has failed.")
]
OnDemand = Annotated[
    bool, _of_task("--on-demand", help="Somebody waits: before what waits in line. With --expire-in up to 10m.")
]
OnEnd = Annotated[str, _of_task(metavar="QUEUE", help="A task is inserted there when it ends.")]
MaxAttempts = Annotated[int, _of_retry(min=0, help="Deliveries in all; 0 = the server's default (20).")]
FirstBackoff = Annotated[str | None, _of_retry(metavar="SPAN", help="Wait before the second attempt.")]
MaxBackoff = Annotated[str | None, _of_retry(metavar="SPAN", help="Longest wait between attempts.")]
AttemptTimeout = Annotated[str | None, _of_retry(metavar="SPAN", help="How long one attempt may take.")]


def _task_options(
    limit_key: LimitKey = "",
    priority: Priority = 0,
    content_type: ContentType = "",
    expire_in: ExpireIn = None,
    soft_expire_in: SoftExpireIn = None,
    keep_result: KeepResult = None,
    stall_timeout: StallTimeout = None,
    on_end: OnEnd = "",
    on_demand: OnDemand = False,
    max_attempts: MaxAttempts = 0,
    backoff: FirstBackoff = None,
    max_backoff: MaxBackoff = None,
    attempt_timeout: AttemptTimeout = None,
) -> dict[str, Any]:
    """As keywords of TaskOptions. Raises WrongInput."""
    expire_after = lifetime("--expire-in", expire_in)
    if on_demand:
        _check_on_demand(expire_after)
    return {
        **{"limit_key": limit_key, "priority": priority, "content_type": content_type, "on_end": on_end},
        "on_demand": on_demand,
        "retry": _retry_of(max_attempts, backoff, max_backoff, attempt_timeout),
        "expire_after": expire_after,
        "soft_expire_after": lifetime("--soft-expire-in", soft_expire_in),
        "keep_result": lifetime("--keep-result", keep_result),
        "stall_timeout": lifetime("--stall-timeout", stall_timeout),
    }


def with_task_options(command: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """The command with these options beside its own: it gets what they say as `tasks`."""
    own = dict(inspect.signature(command, eval_str=True).parameters)
    more = inspect.signature(_task_options, eval_str=True).parameters
    del own["tasks"]

    @wraps(command)
    async def run(*call: Any, **given: Any) -> None:  # noqa: ANN401 - what the command declares
        tasks = _task_options(**{name: given.pop(name) for name in more})
        await command(*call, **given, tasks=tasks)

    merged = [*own.values(), *(each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in more.values())]
    run.__signature__ = inspect.Signature(merged)  # type: ignore[attr-defined]
    return run


def _retry_of(max_attempts: int, backoff: str | None, max_backoff: str | None, attempt_timeout: str | None) -> object:
    """None: the server's policy."""
    from timerd.client import RetryPolicy

    if not max_attempts and backoff is max_backoff is attempt_timeout is None:
        return None
    spans = {"initial_backoff": backoff, "max_backoff": max_backoff, "attempt_timeout": attempt_timeout}
    given: dict[str, Any] = {name: parse_span(text) for name, text in spans.items() if text is not None}
    return RetryPolicy(max_attempts=max_attempts, **given)


def _check_on_demand(expire_after: timedelta | None) -> None:
    """By the names of the options, where the server knows others."""
    if expire_after is None or expire_after > timedelta(milliseconds=MAX_ON_DEMAND_MS):
        raise WrongInput(
            "--on-demand goes before what waits in line, so the task may be worth something for 10 minutes at most: "
            "add --expire-in, up to 10m."
        )


def lifetime(option: str, given: str | None) -> timedelta | None:
    """Raises WrongInput for a span of nothing."""
    span = None if given is None else parse_span(given)
    if span is not None and not span:
        raise WrongInput(f"{option} is {given}: give more than 0, for example 10m.")
    return span
