"""What the task says that another one has made by its end (`on_end`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from timerd.sdk.values.tasks import TaskState

ENDED_CONTENT = "application/vnd.timerd.ended+json"


@dataclass(frozen=True, slots=True)
class EndedTask:
    """An ended task is one that was scheduled with `on_end`, as the handler of that queue learns of it.

    Args:
        outcome: how it has ended: `ACKED`, `DEAD`, `EXPIRED`, `CANCELLED` or `PURGED`.
        task_id: its id, as `schedule` has returned it.
        delivery_id: the id that all its deliveries had, which tells two ends of a task apart that was redriven.
        queue: the queue that it was in.
        key: the name that its caller has given to it; empty where there is none.
        ordering_key: its ordering key; empty where there is none.
        labels: its labels.
        fire_time: the instant, in UTC, for which it was scheduled.
        end_time: the instant, in UTC, at which it has ended.
        attempt: how many deliveries it had.
        last_error: what its last failed attempt failed with; empty where none has.
    """

    outcome: TaskState
    task_id: str
    delivery_id: str
    queue: str
    key: str
    ordering_key: str
    labels: Mapping[str, str]
    fire_time: datetime
    end_time: datetime
    attempt: int
    last_error: str

    @classmethod
    def of_payload(cls, payload: bytes) -> EndedTask:
        """The ended task says what the payload `payload` says, a JSON object."""
        said: dict[str, Any] = json.loads(payload)
        return cls(
            outcome=TaskState[said["outcome"]],
            task_id=said["task_id"],
            delivery_id=said["delivery_id"],
            queue=said["queue"],
            key=said["key"],
            ordering_key=said["ordering_key"],
            labels=said["labels"],
            fire_time=datetime.fromisoformat(said["fire_time"]),
            end_time=datetime.fromisoformat(said["end_time"]),
            attempt=said["attempt"],
            last_error=said["last_error"],
        )
