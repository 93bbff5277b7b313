"""A request of each unary method. A method without one is asked with an empty message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

# The clock of the server of these tests stands at the beginning of 2030.
NOW, LATER, LATEST = "2030-01-01T00:00:00Z", "2030-01-01T05:00:00Z", "2030-01-02T00:00:00Z"
RANGE = {"startTime": NOW, "endTime": LATEST}
TEMPLATE = {"queue": "mails", "labels": {"to": "Ada"}, "priority": 3, "retry": {"maxAttempts": 4, "jitter": 0.5}}
PAYLOAD = "dGVhIGlzIHJlYWR5"
SPEC = {"parts": [{"cron": "0 9 * * MON-FRI"}], "zone": "Europe/Berlin"}

# In this order, on one server; TASK stands for the task that the first of them has made.
EXAMPLES: Mapping[str, dict[str, Any]] = {
    "Schedule": {"template": TEMPLATE, "payload": PAYLOAD, "fireTime": LATER, "key": "tea"},
    "ScheduleBatch": {
        "template": TEMPLATE,
        "items": {
            "items": [{"fireTime": LATER, "payload": PAYLOAD}, {"delay": "-3s"}, {"fireTime": LATER, "key": "tea"}]
        },
    },
    "Get": {"key": "tea"},
    "List": {"filter": RANGE, "includePayload": True},
    "Count": {"filter": RANGE},
    "Reschedule": {"key": "tea", "delay": "7200s"},
    "RescheduleBatch": {"moves": [{"key": "tea", "delay": "7100s"}, {"taskId": "no id", "delay": "1s"}]},
    "FireNow": {"taskId": "TASK"},
    "Cancel": {"key": "tea"},
    "CancelBatch": {"taskIds": ["TASK", "no id"]},
    "Purge": {"filter": {**RANGE, "queue": "mails"}, "force": True},
    "ListDeadLetters": {"queue": "mails"},
    "Redrive": {"taskIds": ["TASK"]},
    "GetPartition": {"time": LATER},
    "CreateSchedule": {"scheduleId": "report", "spec": SPEC, "template": {"queue": "reports"}, "payload": PAYLOAD},
    "GetSchedule": {"scheduleId": "report"},
    "PreviewSchedule": {"spec": SPEC, "count": 3},
    "UpdateSchedule": {"scheduleId": "report", "updateMask": "labels", "labels": {"of": "sales"}},
    "PauseSchedule": {"scheduleId": "report", "note": "holidays", "until": LATEST},
    "ResumeSchedule": {"scheduleId": "report", "mode": "RESUME_MODE_CATCH_UP"},
    "TriggerSchedule": {"scheduleId": "report"},
    "DeleteSchedule": {"scheduleId": "report"},
}


def in_order(methods: list[MethodDescriptor]) -> list[MethodDescriptor]:
    """Those with an example first, in the order of these."""
    names = list(EXAMPLES)
    return sorted(methods, key=lambda method: names.index(method.name) if method.name in EXAMPLES else len(names))


def request_of(method: MethodDescriptor, asked: Mapping[str, Any], task_id: str) -> Message:
    """With a request_id and a time where the method has such a field."""
    message: Message = GetMessageClass(method.input_type)()
    named = {"request_id": f"of {method.name}", "request_time": NOW}
    tree = {name: value for name, value in named.items() if name in method.input_type.fields_by_name}
    kinds = method.input_type.fields_by_camelcase_name
    tree |= {name: value for name, value in asked.items() if name in kinds}
    text = json.dumps(tree).replace("TASK", task_id)
    return json_format.Parse(text, message, ignore_unknown_fields=True)
