"""The options of a row: JSON of a TaskTemplate without its queue, in the names of the .proto file."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from timerd.sdk.values import InvalidTask
from timerd.v1 import task_pb2

_CONFLICT = "on_conflict"
_PREFIX = "CONFLICT_POLICY_"


@lru_cache(maxsize=1024)
def template_of(queue: str, options: str) -> task_pb2.TaskTemplate:
    """The template, which is not to be changed. Raises InvalidTask."""
    template = task_pb2.TaskTemplate(queue=queue)
    if not options:
        return template
    try:
        given = json.loads(options)
        if not isinstance(given, dict) or "queue" in given:
            raise ParseError("an object with the fields of a TaskTemplate but its queue is wanted")
        ParseDict(_long(given), template)
    except (ParseError, ValueError, RecursionError) as wrong:
        raise InvalidTask(
            f"The options of the row cannot be read: {wrong}.", reason="INVALID", field="options"
        ) from None
    return template


def options_of(template: task_pb2.TaskTemplate) -> str:
    """What `template_of` reads; empty where the template has a queue only."""
    given = MessageToDict(template, preserving_proto_field_name=True)
    given.pop("queue", None)
    if _CONFLICT in given:
        given[_CONFLICT] = given[_CONFLICT].removeprefix(_PREFIX).lower()
    return json.dumps(given, sort_keys=True) if given else ""


def _long(given: dict[str, Any]) -> dict[str, Any]:
    """With "keep", "replace" and "reject" as the .proto file writes them."""
    policy = given.get(_CONFLICT)
    return given | {_CONFLICT: f"{_PREFIX}{policy.upper()}"} if isinstance(policy, str) and policy.islower() else given
