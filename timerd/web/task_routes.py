"""Short routes of callers: schedule, look at, cancel and move a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from timerd.model.errors import Invalid
from timerd.model.task import MAX_PRIORITY
from timerd.v1 import timer_service_pb2 as pb
from timerd.v1.task_pb2 import CancelOutcome, ConflictPolicy, ItemOutcome, TaskTemplate
from timerd.web.front import HttpCall
from timerd.web.plain import count_of, flag_of, instant_of, plain, span_of, word_of
from timerd.web.route import ShortRoute, ask, json_body, namespace_of, only, path_text

LABEL = "timerd-label-"
# What curl says of the body where nobody does.
_OF_CURL = "application/x-www-form-urlencoded"
_HEADERS = {
    name.lower(): name
    for name in ("Idempotency-Key", "Timerd-Key", "Timerd-Priority", "Timerd-Ordering-Key", "Timerd-Limit-Key")
}
_DUE = {"in": "how long from now, as 3s or 1h30m", "at": "when, as 2030-01-01T09:00:00Z"}
_SPANS = {
    "expire_after": "for how long from its time on it is worth something, as 30s",
    "soft_expire_after": "how long after its time it is late, as 30s",
    "keep_result": "for how long what its worker answers is kept, as 60s",
    "stall_timeout": "for how long its worker may say no progress, as 30s",
}
_ON_END = {"on_end": "the queue in which a task is inserted when it ends"}
_ON_DEMAND = {"on_demand": "true: somebody waits, so before what waits in line; with expire_after up to 10m"}
LONGEST_WAIT_S = 60
CALLED_FOR = "30s"
_WAIT = {"wait": f"answer once it has ended, or after so long as it is then, up to {LONGEST_WAIT_S}s"}
_CONFLICTS = {"reject": 3, "keep": 1, "replace": 2}


async def _schedule(call: HttpCall) -> object:
    headers = call.request.headers
    request = pb.ScheduleRequest(
        namespace=namespace_of(call),
        request_id=headers.get("Idempotency-Key", ""),
        template=_template(call),
        payload=call.body,
        key=headers.get("Timerd-Key", ""),
    )
    _set_due(request, _due(call.request.query))
    reply = await ask(call, "TimerService/Schedule", request)
    outcome = word_of(reply.outcome, ItemOutcome.DESCRIPTOR)
    return {"task_id": reply.task_id, "fire_time": reply.fire_time.ToJsonString(), "outcome": outcome}


async def _call(call: HttpCall) -> object:
    """Where nothing else is said, the answer is of use for as long as it is waited for. A call that may come again is
    of use for as long as any of its tries may wait: another try waits for another time, and is the same call."""
    headers, timeout = call.request.headers, span_of(call.request.query.get("timeout", CALLED_FOR), "timeout")
    if "Timerd-Key" in headers:
        raise Invalid(
            "The task of a call has no key: leave Timerd-Key out, or schedule the task and wait.", "Timerd-Key"
        )
    request = pb.CallRequest(
        namespace=namespace_of(call),
        request_id=headers.get("Idempotency-Key", ""),
        template=_template(call),
        payload=call.body,
        timeout=timeout,
    )
    useful_for = Duration(seconds=LONGEST_WAIT_S) if request.request_id else timeout
    if useful_for.ToMilliseconds() and not request.template.HasField("expire_after"):
        request.template.expire_after.CopyFrom(useful_for)
    return plain(await ask(call, "TimerService/Call", request))


def _template(call: HttpCall) -> TaskTemplate:
    headers = call.request.headers
    _check_headers(call)
    labels = {name.lower()[len(LABEL) :]: value for name, value in headers.items() if name.lower().startswith(LABEL)}
    form, conflict = headers.get("Content-Type", ""), call.request.query.get("on_conflict", "reject")
    if conflict not in _CONFLICTS:
        raise Invalid(f"on_conflict is {conflict!r:.60}: use {', '.join(_CONFLICTS)}.", "on_conflict")
    has_key = "Timerd-Key" in headers
    template = TaskTemplate(
        queue=path_text(call, "queue"),
        labels=labels,
        content_type="" if form.startswith(_OF_CURL) else form,
        priority=count_of(headers.get("Timerd-Priority", "0"), "Timerd-Priority", 0, MAX_PRIORITY),
        traceparent=headers.get("traceparent", ""),
        on_conflict=ConflictPolicy.Name(_CONFLICTS[conflict] if has_key else 0),
        ordering_key=headers.get("Timerd-Ordering-Key", ""),
        limit_key=headers.get("Timerd-Limit-Key", ""),
        on_end=call.request.query.get("on_end", ""),
        on_demand=flag_of(call.request.query.get("on_demand", "false"), "on_demand"),
    )
    for name in _SPANS.keys() & call.request.query.keys():
        getattr(template, name).CopyFrom(span_of(call.request.query[name], name))
    return template


def _check_headers(call: HttpCall) -> None:
    """Raises Invalid for one that is misspelt, stands twice or is empty: it would make another task than was meant."""
    seen: set[str] = set()
    for name, value in call.request.headers.items():
        lower = name.lower()
        if lower not in _HEADERS and not lower.startswith("timerd-"):
            continue
        if lower not in _HEADERS and not lower.startswith(LABEL):
            allowed = ", ".join([*_HEADERS.values(), "Timerd-Label-NAME"])
            raise Invalid(f"{name:.60} is no header of this route: use {allowed}.", name, "UNKNOWN_HEADER")
        if lower in seen:
            raise Invalid(f"{name} stands twice in the headers: give it once.", name, "REPEATED_HEADER")
        if not value and lower in _HEADERS:
            raise Invalid(f"{name} is empty: give its text, or leave it out.", name)
        seen.add(lower)


def _due(given: Mapping[str, Any]) -> Timestamp | Duration | None:
    if "in" in given and "at" in given:
        raise Invalid("Both `in` and `at` say when: give one of them.", "in")
    if "in" in given:
        return span_of(given["in"], "in")
    return instant_of(given["at"], "at") if "at" in given else None


def _set_due(request: pb.ScheduleRequest | pb.RescheduleRequest, due: Timestamp | Duration | None) -> None:
    """Raises Invalid where there is none."""
    if due is None:
        raise Invalid("It is not said when: add ?in=3s, or ?at=2030-01-01T09:00:00Z.", "in")
    (request.delay if isinstance(due, Duration) else request.fire_time).CopyFrom(due)  # type: ignore[arg-type]


async def _get(call: HttpCall) -> object:
    """With `wait` it is answered once the task has ended, or after that."""
    if "wait" in call.request.query:
        asked = pb.WaitRequest(namespace=namespace_of(call), timeout=_wait_of(call.request.query["wait"]))
        _set_target(call, asked)
        return plain((await ask(call, "TimerService/Wait", asked)).task)
    request = pb.GetRequest(namespace=namespace_of(call))
    _set_target(call, request)
    return plain((await ask(call, "TimerService/Get", request)).task)


def _wait_of(text: str) -> Duration:
    """Raises Invalid."""
    wait = span_of(text, "wait")
    if wait.ToMilliseconds() > LONGEST_WAIT_S * 1_000:
        raise Invalid(
            f"wait is {wait.ToMilliseconds() / 1_000:g} s: use 0 to {LONGEST_WAIT_S} s, and ask again to wait on.",
            "wait",
        )
    return wait


async def _cancel(call: HttpCall) -> object:
    """With `wait` the end of what a worker has is waited for."""
    request = pb.CancelRequest(namespace=namespace_of(call), request_id=call.request.headers.get("Idempotency-Key", ""))
    if "wait" in call.request.query:
        request.wait.CopyFrom(_wait_of(call.request.query["wait"]))
    _set_target(call, request)
    reply = await ask(call, "TimerService/Cancel", request)
    return {"outcome": word_of(reply.outcome, CancelOutcome.DESCRIPTOR)}


async def _move(call: HttpCall) -> object:
    request = pb.RescheduleRequest(
        namespace=namespace_of(call), request_id=call.request.headers.get("Idempotency-Key", "")
    )
    _set_target(call, request)
    given: Mapping[str, Any] = {name: value for name, value in call.request.query.items() if name in _DUE}
    if call.body:
        given = {**given, **json_body(call)}
        only(given, _DUE)
    _set_due(request, _due(given))
    return plain(await ask(call, "TimerService/Reschedule", request))


def _set_target(
    call: HttpCall, request: pb.GetRequest | pb.WaitRequest | pb.CancelRequest | pb.RescheduleRequest
) -> None:
    """By its id or its key, as the path says."""
    info = call.request.match_info
    if "id" in info:
        request.task_id = info["id"]
    else:
        request.key = info["key"]


def _of_task(path: str, name: str) -> list[ShortRoute]:
    return [
        ShortRoute("GET", path, _get, f"The task of {name}.", _WAIT),
        ShortRoute("DELETE", path, _cancel, f"Cancel the task of {name}: what became of it.", _WAIT),
        ShortRoute(
            "PATCH", path, _move, f"Give the task of {name} another time.", _DUE, '{"in"} or {"at"}, or nothing'
        ),
    ]


TASK_ROUTES = [
    ShortRoute(
        "POST",
        "/v1/queues/{queue}/tasks",
        _schedule,
        f"Schedule a task. Headers: {', '.join(_HEADERS.values())}, Timerd-Label-NAME.",
        {**_DUE, **_SPANS, **_ON_END, **_ON_DEMAND, "on_conflict": "where the key is in use: reject, keep or replace"},
        "the payload, as it is",
    ),
    ShortRoute(
        "POST",
        "/v1/queues/{queue}/call",
        _call,
        "Have a task handled at once: how it has ended, and its result. Headers as of a schedule, without Timerd-Key.",
        {
            **_SPANS,
            **_ON_END,
            "timeout": f"how long to wait for it, up to {LONGEST_WAIT_S}s; {CALLED_FOR} where left out",
        },
        "the payload, as it is",
    ),
    *_of_task("/v1/tasks/{id}", "an id"),
    *_of_task("/v1/keys/{key}", "a key"),
]
