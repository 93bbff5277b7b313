"""Which task a call is about: by its id, or by its key."""

from __future__ import annotations

from timerd.sdk.values import invalid, optional_name
from timerd.v1 import timer_service_pb2 as pb


def one_target(task_id: object, key: object) -> None:
    if (task_id is None) == (key is None):
        raise invalid("Give either a task id or a `key`.", "task_id")
    optional_name(task_id, "task_id")
    optional_name(key, "key")


TargetRequest = pb.CancelRequest | pb.GetRequest | pb.WaitRequest | pb.RescheduleRequest


def set_target(request: TargetRequest, task_id: str | None, key: str | None) -> None:
    if key is not None:
        request.key = key
    elif task_id is not None:
        request.task_id = task_id
