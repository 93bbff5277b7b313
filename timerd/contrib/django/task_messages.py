"""A task of Django's on its way: what a worker needs of it, as the payload of a task of timerd."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

CONTENT_TYPE = "application/x-timerd-django-task"
_VERSION = 1


class TaskMessage(NamedTuple):
    """What `enqueue` was given.

    Args:
        id: the id of the result.
        path: where the task is found, as MODULE.NAME.
        args: the arguments, as JSON has them.
        kwargs: those with names.
        enqueued_at: when it was enqueued, in UTC.
        changes: what `using` had changed of the task: its priority, its queue_name.
    """

    id: str
    path: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    enqueued_at: datetime
    changes: Mapping[str, Any]

    def to_bytes(self) -> bytes:
        """Raises TypeError for what has no JSON."""
        return json.dumps({"v": _VERSION, **self._asdict(), "enqueued_at": self.enqueued_at.isoformat()}).encode()

    @classmethod
    def of_bytes(cls, payload: bytes) -> TaskMessage:
        """Raises ValueError for what is no such payload."""
        try:
            values = json.loads(payload)
            version = values.pop("v")
            message = cls(**values | {"enqueued_at": datetime.fromisoformat(values["enqueued_at"])})
        except (AttributeError, KeyError, TypeError, ValueError) as wrong:
            raise ValueError(f"This payload is no task of Django's that timerd has enqueued: {wrong!r}.") from wrong
        if version != _VERSION:
            raise ValueError(f"This task has the form {version!r}, of a later release: upgrade the worker.")
        return message
