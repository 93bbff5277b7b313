"""Which task a request is about: an id, or the key that the caller chose for it.

A forged id, or one of another namespace, fails its MAC here and costs the engine nothing.
"""

from __future__ import annotations

from typing import Protocol

from timerd.model.errors import CorruptRow, Invalid, NotFound
from timerd.model.identity import TaskId, encode_id, is_genuine, parse_task_id
from timerd.services.calls.fields import key_of, quoted
from timerd.services.engine.verbs import Verbs


class HasTarget(Protocol):
    """A message with `oneof target {task_id, key}`."""

    @property
    def task_id(self) -> str: ...

    @property
    def key(self) -> str: ...


def genuine(secret: bytes, namespace: str, text: str) -> TaskId | None:
    task = parse_task_id(text)
    return task if task is not None and is_genuine(task, secret, namespace) else None


def stored_id(raw: bytes) -> TaskId:
    """Of a dead letter, as the store gave it."""
    task = parse_task_id(encode_id(raw))
    if task is None:
        raise CorruptRow("A dead letter has a task id that cannot be read.")
    return task


def task_of_id(secret: bytes, namespace: str, text: str) -> TaskId:
    if not text:
        raise Invalid("The task_id is missing: give the one that Schedule answered.", "task_id")
    task = genuine(secret, namespace, text)
    if task is None:
        raise not_found(namespace, text)
    return task


def not_found(namespace: str, text: str) -> NotFound:
    is_id = parse_task_id(text) is not None
    other = "" if is_id else " It does not look like an id: if it is the key of a task, give it as the key."
    return NotFound(
        f"There is no task {quoted(text)} in the namespace {namespace!r}: check the id and the namespace.{other}",
        "TASK_NOT_FOUND",
        field="task_id",
    )


async def task_of(verbs: Verbs, namespace: str, target: HasTarget, which: str | None, request: bytes = b"") -> TaskId:
    """`which` field of the oneof is set. `request`: hash of the call, all of whose tries are about one task. Raises
    NotFound."""
    if which == "task_id":
        return task_of_id(verbs.secret, namespace, target.task_id)
    if which == "key" and target.key:
        return await verbs.resolve_key(namespace, key_of(target.key, "key"), request)
    raise Invalid("Neither task_id nor key is set: give one of them, so that it is known which task.", "task_id")
