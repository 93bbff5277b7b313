"""Short routes of workers: receive, finish, extend."""

from __future__ import annotations

from typing import Any

from timerd.model.errors import Invalid
from timerd.services.work.poll_service import MAX_TASKS
from timerd.v1 import work_service_pb2 as pb
from timerd.v1.task_pb2 import Progress
from timerd.web.front import HttpCall
from timerd.web.plain import count_of, plain, span_of, token_of, token_text, word_of
from timerd.web.route import ShortRoute, ask, json_body, namespace_of, only, path_text

_OUTCOMES = {"ack": 1, "nack": 2, "reject": 3, "release": 4, "throttled": 2}
_TOKENS = ("ack_token", "ack_tokens")
_RESULT = ("result", "result_content_type", "keep_result")


async def _receive(call: HttpCall) -> object:
    query = call.request.query
    request = pb.ReceiveRequest(
        namespace=namespace_of(call),
        queue=path_text(call, "queue"),
        max_tasks=count_of(query.get("max", "1"), "max", 1, MAX_TASKS),
        wait=span_of(query.get("wait", "20s"), "wait"),
        lease=span_of(query.get("lease", "30s"), "lease"),
    )
    reply = await ask(call, "WorkService/Receive", request)
    return [plain(task) for task in reply.tasks]


async def _finish(call: HttpCall) -> object:
    body = json_body(call)
    only(body, (*_TOKENS, "outcome", "error", "after", "limit", "by_key", *_RESULT))
    outcome, error = body.get("outcome", "ack"), body.get("error", "")
    if not isinstance(outcome, str) or outcome not in _OUTCOMES:
        raise Invalid(f"outcome is {outcome!r:.60}: use {', '.join(_OUTCOMES)}.", "outcome")
    if not isinstance(error, str):
        raise Invalid("error is a text.", "error")
    request = pb.FinishRequest(
        namespace=namespace_of(call),
        ack_tokens=_tokens(body),
        action=pb.SettleAction.Name(_OUTCOMES[outcome]),
        error=error.encode(errors="replace").decode(),
    )
    if "after" in body:
        request.delay.CopyFrom(span_of(body["after"], "after"))
    if outcome == "throttled":
        request.throttle.CopyFrom(pb.Throttle(limit=_limit(body), after=request.delay, by_key=_by_key(body)))
    _add_result(request, body)
    reply = await ask(call, "WorkService/Finish", request)
    refused = [{"index": each.index, **plain(each)} for each in reply.refused]
    said = {"finished": len(request.ack_tokens) - len(refused), "refused": refused}
    return {**said, "message": reply.problem.message} if refused else said


def _add_result(request: pb.FinishRequest, body: dict[str, Any]) -> None:
    if "result" not in body:
        return
    result, form = body["result"], body.get("result_content_type", "")
    if not isinstance(result, str) or not isinstance(form, str):
        raise Invalid("result and result_content_type are texts: write JSON as a text.", "result")
    request.result.value = result.encode(errors="replace")
    request.result.content_type = form
    if "keep_result" not in body:
        raise Invalid("A result needs keep_result: say it as receive has said it.", "keep_result")
    request.keep_result.CopyFrom(span_of(body["keep_result"], "keep_result"))


def _by_key(body: dict[str, Any]) -> bool:
    by_key = body.get("by_key", False)
    if not isinstance(by_key, bool):
        raise Invalid("by_key is true or false.", "by_key")
    return by_key


def _limit(body: dict[str, Any]) -> str:
    limit = body.get("limit", "")
    if not isinstance(limit, str):
        raise Invalid("limit is the name of a limit.", "limit")
    return limit


async def _extend(call: HttpCall) -> object:
    body = json_body(call)
    only(body, (*_TOKENS, "lease", "progress", "cursor"))
    lease = span_of(body.get("lease", "30s"), "lease")
    request = pb.ExtendRequest(namespace=namespace_of(call), ack_tokens=_tokens(body), lease=lease)
    if "progress" in body or "cursor" in body:
        progress = _progress(body.get("progress", 0), body.get("cursor", ""))
        request.reports.extend([pb.ProgressReport(ack_token=each, progress=progress) for each in request.ack_tokens])
    reply = await ask(call, "WorkService/Extend", request)
    lost = {"lost": [token_text(token) for token in reply.lost]}
    said = [
        {"ack_token": token_text(each.ack_tokens), "reason": word_of(each.reason, pb.InterruptReason.DESCRIPTOR)}
        for each in reply.interrupts
    ]
    return {**lost, "interrupted": said} if said else lost


def _progress(fraction: object, cursor: object) -> Progress:
    """Raises Invalid."""
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not isinstance(cursor, str):
        raise Invalid("progress is a number from 0 to 1, and cursor a text: give the one, or both.", "progress")
    return Progress(fraction=fraction, cursor=cursor.encode(errors="replace"))


def _tokens(body: dict[str, Any]) -> list[bytes]:
    """Raises Invalid."""
    tokens = body.get("ack_tokens", [])
    if not isinstance(tokens, list):
        raise Invalid("ack_tokens is a list of ack tokens.", "ack_tokens")
    return [token_of(each) for each in ([body["ack_token"]] if "ack_token" in body else []) + tokens]


WORK_ROUTES = [
    ShortRoute(
        "POST",
        "/v1/queues/{queue}/receive",
        _receive,
        "Wait until tasks are due, and receive some.",
        {
            "max": "how many at most; 1 where left out",
            "wait": "how long to wait, up to 60s; 20s where left out",
            "lease": "how long a task stays with this worker; 30s where left out",
        },
    ),
    ShortRoute(
        "POST",
        "/v1/finish",
        _finish,
        "Say what became of received tasks.",
        {},
        '{"ack_token" or "ack_tokens", "outcome": ack, nack, reject, release, throttled, '
        '"error", "after": 3s, "limit", "by_key", "result", "keep_result"}',
    ),
    ShortRoute(
        "POST",
        "/v1/extend",
        _extend,
        "Received tasks are still in hand.",
        {},
        '{"ack_token" or "ack_tokens", "lease": 30s, "progress": 0 to 1, "cursor"}',
    ),
]
