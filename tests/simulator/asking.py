"""A schedule as the API reads it from the wire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.simulator.events import Wanted
from timerd.core.protocol.keys import Conflict
from timerd.model.identity import message_prefix
from timerd.model.task import RetryPolicy, Template
from timerd.services.calls.due_times import DueClock
from timerd.services.calls.requests import Gathered, Rules
from timerd.services.calls.templates import Common
from timerd.services.engine.verbs import NewTasks

# The label of a task whose end makes another one.
NAME = "name"


def new_tasks(
    request: str,
    names: tuple[str, ...],
    wanted: tuple[Wanted, ...],
    limit_key: Callable[[str], str] = lambda _: "",
    ordering_key: Callable[[str], str] = lambda _: "",
    on_end: Callable[[str], str] = lambda _: "",
) -> NewTasks:
    """`limit_key`, `ordering_key`, `on_end`: of a task by its name."""
    gathered = Gathered(Rules(DueClock(0), 1 << 16))
    for n, (name, each) in enumerate(zip(names, wanted, strict=True)):
        retry = RetryPolicy(max_attempts=each.max_attempts, initial_backoff_ms=500)
        template = Template("default", each.queue, each.priority, retry=retry, expire_at_ms=each.expire_at_ms)
        template = replace(template, limit_key=limit_key(name), on_demand=each.on_demand)
        if told := on_end(name):
            # By which the task that its end makes knows it again.
            template = replace(template, on_end=told, labels=((NAME, name),))
        conflict = Conflict[each.policy] if each.policy else Conflict.REJECT
        gathered.add(
            n, each.fire_at_ms, name.encode(), Common(template, conflict, b"", ordering_key(name)), each.key, ""
        )
    return gathered.tasks("default", message_prefix("default", request, repr(wanted).encode()))
