"""The short routes: one line of curl for what callers and workers do most."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from multidict import CIMultiDict

from tests.web.rig import JSON, UNARY, Answer, Rig, serving
from timerd.client import TaskState
from timerd.model.errors import Invalid
from timerd.v1.task_pb2 import TaskState as State
from timerd.web.plain import instant_of, span_of, token_of, token_text, word_of

TEAS = "/v1/queues/teas/tasks"
HOUR = f"{TEAS}?in=1h"


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with serving() as running:
        yield running


async def post(rig: Rig, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
    return await rig.caller.ask("POST", path, body, headers)


async def post_json(rig: Rig, path: str, body: Mapping[str, Any]) -> Answer:
    return await rig.caller.ask("POST", path, json.dumps(body).encode(), JSON)


async def receive(rig: Rig, queue: str = "teas", query: str = "max=10&wait=0s") -> list[dict[str, Any]]:
    answer = await post(rig, f"/v1/queues/{queue}/receive?{query}")
    assert answer.status == 200, answer
    found: list[dict[str, Any]] = answer.json
    return found


# -- callers ----------------------------------------------------------------------------------------------------------


async def test_what_the_headers_say_is_kept(rig: Rig) -> None:
    headers = {
        "Content-Type": "application/json",
        "Timerd-Key": "tea",
        "Timerd-Priority": "3",
        "Timerd-Label-To": "Ada",
        "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }
    stored = await post(rig, HOUR, b'{"cups": 2}', headers)
    assert (stored.status, stored.json["outcome"], stored.json["fire_time"]) == (200, "stored", "2030-01-01T01:00:00Z")
    task = await rig.server.client().get(stored.json["task_id"])
    assert (task.queue, task.key, task.priority, task.labels) == ("teas", "tea", 3, {"to": "Ada"})
    assert (task.content_type, task.traceparent) == ("application/json", headers["Traceparent"])
    shown = (await rig.caller.ask("GET", "/v1/keys/tea")).json
    assert (shown["state"], shown["payload"], shown["labels"]) == ("pending", '{"cups": 2}', {"to": "Ada"})


async def test_for_how_long_it_is_worth_something_stands_in_the_query(rig: Rig) -> None:
    stored = (await post(rig, f"{HOUR}&expire_after=30s&soft_expire_after=10s", b"x")).json
    shown = (await rig.caller.ask("GET", f"/v1/tasks/{stored['task_id']}")).json
    assert (shown["soft_expire_time"], shown["expire_time"]) == ("2030-01-01T01:00:10Z", "2030-01-01T01:00:30Z")
    wrong = await post(rig, f"{HOUR}&expire_after=soon", b"x")
    assert (wrong.status, "expire_after" in wrong.json["message"]) == (400, True)


async def test_what_curl_says_of_a_body_by_itself_is_not_kept(rig: Rig) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    stored = (await post(rig, HOUR, b"\xff\x00", form)).json
    shown = (await rig.caller.ask("GET", f"/v1/tasks/{stored['task_id']}")).json
    assert ("content_type" in shown, "payload" in shown, shown["payload_base64"]) == (False, False, "/wA=")


async def test_a_call_is_answered_with_what_its_worker_says(rig: Rig) -> None:
    calling = asyncio.create_task(post(rig, "/v1/queues/teas/call?timeout=60s", b"1 2 3", {"Idempotency-Key": "one"}))
    [got] = await receive(rig, query="max=1&wait=60s")
    said = {"ack_token": got["ack_token"], "result": "6", "keep_result": got["keep_result"]}
    assert (await post_json(rig, "/v1/finish", said)).json["finished"] == 1
    ended = (await calling).json
    assert (ended["task_id"], ended["state"], ended["has_ended"]) == (got["task_id"], "acked", True)
    assert ended["result"]["value"] == "6"
    for timeout in ("60s", "5s"):
        again = await post(rig, f"/v1/queues/teas/call?timeout={timeout}", b"1 2 3", {"Idempotency-Key": "one"})
        assert again.json["task_id"] == ended["task_id"]


@pytest.mark.parametrize(
    ("query", "headers", "said"),
    [
        ("timeout=61s", {}, "timeout is 61 s: use 0 to 60 s"),
        ("timeout=soon", {}, "timeout is 'soon'"),
        ("timeout=1s", {"Timerd-Key": "tea"}, "The task of a call has no key"),
        ("in=3s", {}, "'in' is no parameter of this route"),
    ],
)
async def test_what_is_wrong_with_a_call_is_said(rig: Rig, query: str, headers: dict[str, str], said: str) -> None:
    wrong = await post(rig, f"/v1/queues/teas/call?{query}", b"x", headers)
    assert (wrong.status, said in wrong.json["message"]) == (400, True), wrong.json
    assert [task async for task in rig.server.client().list(queue="teas")] == []


async def test_a_get_that_waits_is_answered_once_the_task_has_ended(rig: Rig) -> None:
    path = f"/v1/tasks/{(await post(rig, HOUR, b'x')).json['task_id']}"
    assert (await rig.caller.ask("GET", f"{path}?wait=10ms")).json["state"] == "pending"
    waiting = asyncio.create_task(rig.caller.ask("GET", f"{path}?wait=60s"))
    await rig.caller.ask("DELETE", path)
    assert (await waiting).json["state"] == "cancelled"
    wrong = await rig.caller.ask("GET", f"{path}?wait=61s")
    assert (wrong.status, "wait is 61 s: use 0 to 60 s" in wrong.json["message"]) == (400, True)


async def test_a_result_is_given_with_the_finish_and_shown_with_the_task(rig: Rig) -> None:
    path = f"/v1/tasks/{(await post(rig, f'{TEAS}?in=0s&keep_result=1h', b'x')).json['task_id']}"
    [received] = await receive(rig, query="wait=5s")
    assert received["keep_result"] == "3600s"
    said = {"ack_token": received["ack_token"], "result": "[3]", "keep_result": "1h"}
    wrong = await post_json(rig, "/v1/finish", {**said, "outcome": "nack"})
    assert (wrong.status, "Only an ACK has a result" in wrong.json["message"]) == (400, True)
    assert (await post_json(rig, "/v1/finish", said)).json["finished"] == 1
    shown = (await rig.caller.ask("GET", f"{path}?wait=5s")).json
    assert (shown["state"], shown["result"]) == ("acked", {"value": "[3]"})


async def test_a_repeat_is_answered_as_the_first_time(rig: Rig) -> None:
    headers = {"Idempotency-Key": "order-17"}
    answers = [(await post(rig, HOUR, b"a", headers)).json for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert await rig.server.client().count() == 1
    # A request's identity covers its content.
    assert (await post(rig, HOUR, b"another", headers)).json["task_id"] != answers[0]["task_id"]


async def test_an_instant_of_long_ago_fires_at_once(rig: Rig) -> None:
    """After an outage that is how what is overdue comes in."""
    answer = await post(rig, "/v1/queues/teas/tasks?at=1999-12-31T23:59:59Z", b"tea")
    assert (answer.status, answer.json["outcome"], answer.json["fire_time"]) == (200, "stored", "1999-12-31T23:59:59Z")
    assert [each["payload"] for each in await receive(rig)] == ["tea"]


async def test_a_key_in_use(rig: Rig) -> None:
    first = (await post(rig, HOUR, b"a", {"Timerd-Key": "tea"})).json
    taken = await post(rig, HOUR, b"b", {"Timerd-Key": "tea"})
    assert (taken.status, taken.reason) == (409, "KEY_TAKEN")
    kept = (await post(rig, f"{HOUR}&on_conflict=keep", b"b", {"Timerd-Key": "tea"})).json
    assert (kept["outcome"], kept["task_id"]) == ("kept", first["task_id"])
    replaced = (await post(rig, f"{HOUR}&on_conflict=replace", b"b", {"Timerd-Key": "tea"})).json
    assert (replaced["outcome"], replaced["task_id"] != first["task_id"]) == ("stored", True)


async def test_who_has_a_task_that_is_cancelled_is_told_when_it_extends(rig: Rig) -> None:
    path = f"/v1/tasks/{(await post(rig, f'{TEAS}?in=0s', b'x')).json['task_id']}"
    [received] = await receive(rig, query="wait=5s")
    token = received["ack_token"]
    assert (await post_json(rig, "/v1/extend", {"ack_token": token})).json == {"lost": []}
    assert (await rig.caller.ask("DELETE", f"{path}?wait=10ms")).json == {"outcome": "in_flight"}
    told = {"lost": [], "interrupted": [{"ack_token": token, "reason": "cancelled"}]}
    assert (await post_json(rig, "/v1/extend", {"ack_token": token})).json == told
    waiting = asyncio.create_task(rig.caller.ask("DELETE", f"{path}?wait=60s"))
    assert (await post_json(rig, "/v1/finish", {"ack_token": token})).json["finished"] == 1
    assert (await waiting).json == {"outcome": "already_fired"}
    wrong = await rig.caller.ask("DELETE", f"{path}?wait=61s")
    assert (wrong.status, "wait is 61 s: use 0 to 60 s" in wrong.json["message"]) == (400, True)


async def test_who_extends_says_how_far_it_has_come(rig: Rig) -> None:
    """Where a task may not be silent it is told so. A customer that is to wait is held by its key."""
    path = f"/v1/tasks/{(await post(rig, f'{TEAS}?in=0s&stall_timeout=30s', b'x')).json['task_id']}"
    [received] = await receive(rig, query="wait=5s")
    assert received["stall_timeout"] == "30s"
    token = received["ack_token"]
    said = {"ack_token": token, "progress": 0.5, "cursor": "page 17"}
    assert (await post_json(rig, "/v1/extend", said)).json == {"lost": []}
    assert (await rig.caller.ask("GET", path)).json["progress"]["fraction"] == 0.5
    for wrong in ({"progress": "half"}, {"progress": 0.5, "cursor": 17}, {"progress": 2}):
        assert (await post_json(rig, "/v1/extend", {"ack_token": token, **wrong})).status == 400
    held = {"ack_token": token, "outcome": "throttled", "after": "5s", "by_key": True}
    assert (await post_json(rig, "/v1/finish", {**held, "by_key": "yes"})).status == 400
    assert (await post_json(rig, "/v1/finish", {**held, "limit": "stripe"})).status == 400
    assert (await post_json(rig, "/v1/finish", held)).json["finished"] == 1


async def test_a_task_is_moved_and_cancelled_by_id_and_by_key(rig: Rig) -> None:
    task_id = (await post(rig, HOUR, b"a", {"Timerd-Key": "a/b"})).json["task_id"]
    for path in (f"/v1/tasks/{task_id}", "/v1/keys/a%2Fb"):
        moved = await rig.caller.ask("PATCH", f"{path}?in=2h")
        assert moved.json == {"task_id": task_id, "fire_time": "2030-01-01T02:00:00Z"}
        moved = await rig.caller.ask("PATCH", path, b'{"at": "2031-01-01T09:00:00+02:00"}', JSON)
        assert moved.json["fire_time"] == "2031-01-01T07:00:00Z"
        assert (await rig.caller.ask("GET", path)).json["fire_time"] == "2031-01-01T07:00:00Z"
    assert (await rig.caller.ask("DELETE", "/v1/keys/a%2Fb")).json == {"outcome": "cancelled"}
    assert (await rig.caller.ask("DELETE", f"/v1/tasks/{task_id}")).json == {"outcome": "already_cancelled"}
    assert (await rig.caller.ask("GET", f"/v1/tasks/{task_id}")).json["state"] == "cancelled"
    unknown = await rig.caller.ask("GET", "/v1/keys/b")
    assert (unknown.status, unknown.json["code"]) == (404, "not_found")


NEAR = {
    "/v1/tasks": "near it are /v1/queues/{queue}/tasks, /v1/tasks/{id}, and ",
    "/v1/key/order-4711": "near it is /v1/keys/{key}, and ",
    "/queue/mails/task": "near it is /v1/queues/{queue}/tasks, and ",
    "/v2/" + "a" * 150: "",
    "/v1/": "",
}


async def test_a_path_that_is_none_and_a_verb_of_another_are_said_in_a_sentence(rig: Rig) -> None:
    for path in ("/v1/task/abc", "/v1/", "/v1/queues/mails", "/queues/mails/tasks", "/api"):
        unknown = await rig.caller.ask("GET", path)
        assert (unknown.status, unknown.json["code"], unknown.reason) == (404, "not_found", "PATH_UNKNOWN")
        assert path in unknown.json["message"]
    for path, near in NEAR.items():
        said = (await rig.caller.ask("POST", path, b"x")).json["message"]
        assert said == f"There is no path {path!r}: {near}GET /openapi.json lists those that there are."
    wrong = await rig.caller.ask("GET", "/v1/queues/mails/tasks?in=3s")
    assert (wrong.status, wrong.json["code"], wrong.headers["Allow"]) == (405, "unimplemented", "POST")
    assert wrong.json["message"] == "/v1/queues/mails/tasks is not asked by GET, but by POST."
    assert (await rig.caller.ask("POST", "/metrics")).json[
        "message"
    ] == "/metrics is not asked by POST, but by GET, HEAD."
    assert (await rig.caller.ask("PUT", "/v1/tasks/abc")).headers["Allow"] == "DELETE, GET, HEAD, PATCH"


async def test_a_namespace_is_named_in_the_query(rig: Rig) -> None:
    task_id = (await post(rig, f"{HOUR}&namespace=other", b"a")).json["task_id"]
    assert (await rig.caller.ask("GET", f"/v1/tasks/{task_id}")).status == 404
    assert (await rig.caller.ask("GET", f"/v1/tasks/{task_id}?namespace=other")).status == 200


# -- workers ----------------------------------------------------------------------------------------------------------


async def test_a_task_is_received_and_finished(rig: Rig) -> None:
    task_id = (await post(rig, f"{TEAS}?in=0s", b"earl grey")).json["task_id"]
    await rig.server.settle()
    [task] = await receive(rig)
    assert (task["task_id"], task["payload"], task["attempt"], task["late"]) == (task_id, "earl grey", 1, False)
    token = task["ack_token"]
    assert (await post_json(rig, "/v1/extend", {"ack_token": token, "lease": "60s"})).json == {"lost": []}
    assert (await post_json(rig, "/v1/finish", {"ack_token": token})).json == {"finished": 1, "refused": []}
    assert (await rig.server.client().get(task_id)).state is TaskState.ACKED
    refused = (await post_json(rig, "/v1/finish", {"ack_tokens": [token], "outcome": "reject", "error": "no"})).json
    assert (refused["finished"], refused["refused"]) == (0, [{"index": 0, "state": "acked"}])
    assert "acknowledged" in refused["message"]


async def test_what_failed_comes_again_after_a_while(rig: Rig) -> None:
    await post(rig, f"{TEAS}?in=0s", b"a")
    await rig.server.settle()
    [task] = await receive(rig)
    failed = {"ack_token": task["ack_token"], "outcome": "nack", "error": "exit code 1", "after": "30s"}
    assert (await post_json(rig, "/v1/finish", failed)).json["finished"] == 1
    await rig.server.advance(seconds=29)
    assert await receive(rig) == []
    await rig.server.advance(seconds=1)
    [again] = await receive(rig)
    assert again["attempt"] == 2
    [attempt] = (await rig.caller.ask("GET", f"/v1/tasks/{again['task_id']}")).json["history"]
    assert (attempt["attempt"], attempt["end"], attempt["error"]) == (1, "failed", "exit code 1")


async def test_a_limit_that_is_not_listed_is_told(rig: Rig) -> None:
    await post(rig, f"{TEAS}?in=0s", b"a")
    await rig.server.settle()
    [task] = await receive(rig)
    said = {"ack_token": task["ack_token"], "outcome": "throttled", "after": "30s", "limit": "strpe"}
    answer = (await post_json(rig, "/v1/finish", said)).json
    assert (answer["finished"], answer["refused"]) == (0, [{"index": 0, "state": "pending"}])
    assert "the limit 'strpe', which the queue 'teas' does not list, so the attempt has failed" in answer["message"]


async def test_calls_that_wait_are_not_in_the_way_of_others(rig: Rig) -> None:
    waiting = [asyncio.create_task(receive(rig, query="wait=60s")) for _ in range(10)]
    while rig.server.node.delivery.workers < 10:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.001)
    for number in range(10):
        assert (await post(rig, f"{TEAS}?in=0s", b"%d" % number)).status == 200
    await rig.server.advance(milliseconds=100)
    found = [task["payload"] for tasks in await asyncio.gather(*waiting) for task in tasks]
    assert sorted(found) == [str(number) for number in range(10)]


# -- what is wrong ----------------------------------------------------------------------------------------------------

WRONG = [
    ("POST", TEAS, b"x", {}, "It is not said when"),
    ("POST", f"{TEAS}?in=3", b"x", {}, "write it with a unit"),
    ("POST", f"{TEAS}?in=-3s", b"x", {}, "in is '-3s': a span is 0 or more"),
    ("POST", f"{TEAS}?in=-3", b"x", {}, "write it with a unit"),
    ("POST", f"{TEAS}?in=999999999999999d", b"x", {}, "too long"),
    ("POST", f"{TEAS}?at=tomorrow", b"x", {}, "write an instant"),
    ("POST", f"{TEAS}?at=2031-01-01T09:00:00", b"x", {}, "write an instant"),
    ("POST", f"{TEAS}?in=3s&at=2031-01-01T09:00:00Z", b"x", {}, "give one of them"),
    (
        "POST",
        f"{TEAS}?delay=3s",
        b"x",
        {},
        "no parameter of this route: use in, at, expire_after, soft_expire_after, keep_result",
    ),
    ("POST", f"{TEAS}?in=3s&in=4s", b"x", {}, "in stands twice in the query"),
    ("POST", f"{HOUR}&namespace=a&namespace=b", b"x", {}, "namespace stands twice in the query"),
    ("POST", f"{HOUR}&on_conflict=ignore", b"x", {}, "use reject, keep, replace"),
    ("POST", "/v1/queues/q/tasks?at=1970-01-22T21:54:32Z", b"x", {}, "are these seconds, where milliseconds are meant"),
    ("POST", HOUR, b"x", {"Timerd-Priority": "high"}, "write a whole number from 0 to 10"),
    ("POST", HOUR, b"x", {"Timerd-Priority": "11"}, "Timerd-Priority is '11': write a whole number from 0 to 10"),
    (
        "POST",
        HOUR,
        b"x",
        {"Timerd-Prio": "3"},
        "Timerd-Prio is no header of this route: use Idempotency-Key, Timerd-Key",
    ),
    ("POST", HOUR, b"x", {"Timerd-Label": "to=Ada"}, "Timerd-Label is no header of this route: use Idempotency-Key"),
    ("POST", HOUR, b"x", {"Timerd-Key": ""}, "Timerd-Key is empty: give its text, or leave it out"),
    ("POST", HOUR, b"x", {"Idempotency-Key": ""}, "Idempotency-Key is empty: give its text, or leave it out"),
    ("POST", "/v1/queues/teas/call", b"x", {"Timerd-Prio": "3"}, "Timerd-Prio is no header of this route"),
    ("POST", "/v1/queues/no%20spaces/tasks?in=3s", b"x", {}, "is not allowed"),
    ("PATCH", "/v1/keys/tea", b"", {}, "It is not said when"),
    ("PATCH", "/v1/keys/tea", b'{"delay": "3s"}', JSON, "is no field here: use in, at"),
    ("PATCH", "/v1/keys/tea", b'{"in": 3}', JSON, "write it with a unit"),
    ("POST", "/v1/queues/teas/receive?max=all", b"", {}, "write a whole number from 1 to 1,000"),
    ("POST", "/v1/queues/teas/receive?max=0", b"", {}, "max is '0': write a whole number from 1 to 1,000"),
    ("POST", "/v1/queues/teas/receive?max=1001", b"", {}, "max is '1001': write a whole number from 1 to 1,000"),
    ("GET", "/v1/audit?max=-1", b"", {}, "max is '-1': write a whole number from 1 to 1,000"),
    ("POST", "/v1/queues/teas/receive?wait=61s", b"", {}, "use 0 to 60 s"),
    ("POST", "/v1/finish", b"ack_token=x", {"Content-Type": "text/plain"}, "The body is JSON: say so"),
    ("POST", "/v1/finish", b"[]", JSON, "no JSON in braces"),
    ("POST", "/v1/finish", b"{}", JSON, "holds no ack_tokens"),
    ("POST", "/v1/finish", b'{"ack_token": "x"}', JSON, "ack token"),
    ("POST", "/v1/finish", b'{"ack_token": "AAAA"}', JSON, "An ack token has 64 bytes"),
    ("POST", "/v1/finish", b'{"ack_token": "AAAA", "outcome": "done"}', JSON, "use ack, nack, reject, release"),
    ("POST", "/v1/finish", b'{"ack_token": "AAAA", "answer": "done"}', JSON, "is no field here"),
    ("POST", "/v1/finish", b'{"ack_tokens": "AAAA"}', JSON, "ack_tokens is a list"),
]


async def test_a_header_that_stands_twice_is_refused(rig: Rig) -> None:
    for name in ("Timerd-Key", "Timerd-Label-to", "Idempotency-Key"):
        answer = await post(rig, HOUR, b"x", CIMultiDict([(name, "a"), (name, "b")]))
        assert (answer.status, answer.reason) == (400, "REPEATED_HEADER")
        assert "stands twice in the headers: give it once" in answer.json["message"]


@pytest.mark.parametrize(("verb", "path", "body", "headers", "says"), WRONG)
async def test_what_is_wrong_is_said(
    rig: Rig, verb: str, path: str, body: bytes, headers: Mapping[str, str], says: str
) -> None:
    answer = await rig.caller.ask(verb, path, body, headers)
    assert (answer.status, answer.json["code"]) == (400, "invalid_argument")
    assert says in answer.json["message"]


def test_spans_and_instants() -> None:
    spans = {"3s": 3_000, "500ms": 500, "1h30m": 5_400_000, "2d": 172_800_000, "0.25s": 250, "0s": 0}
    assert {text: span_of(text, "in").ToMilliseconds() for text in spans} == spans
    # A plus that was not escaped in a query.
    assert instant_of("2031-01-01T09:00:00 02:00", "at") == instant_of("2031-01-01T07:00:00Z", "at")
    for text in ("", "s", "3 s", "3s ago", "1e3s", None, 3):
        with pytest.raises(Invalid):
            span_of(text, "in")


def test_tokens_come_back_as_they_were_in_either_alphabet() -> None:
    token = bytes(range(192, 256))
    assert token_of(token_text(token)) == token
    assert token_of("+/+/") == token_of("-_-_")
    assert word_of(State.TASK_STATE_IN_FLIGHT, State.DESCRIPTOR) == "in_flight"


# -- what it says of itself -------------------------------------------------------------------------------------------


def refs(tree: object) -> set[str]:
    if isinstance(tree, dict):
        own = {tree["$ref"]} if isinstance(tree.get("$ref"), str) else set()
        return own.union(*map(refs, tree.values())) if tree else own
    return set().union(*map(refs, tree)) if isinstance(tree, list) and tree else set()


async def test_the_openapi_document_has_every_method_and_leads_nowhere_else(rig: Rig) -> None:
    document = (await rig.caller.ask("GET", "/openapi.json")).json
    methods = {f"/{method.containing_service.full_name}/{method.name}" for method in UNARY}
    assert methods <= document["paths"].keys()
    assert set(document["paths"]["/v1/keys/{key}"]) == {"get", "delete", "patch"}
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert refs(document) <= known
    schedule = document["components"]["schemas"]["timerd.v1.ScheduleRequest"]["properties"]
    assert schedule["fireTime"] == {"type": "string", "format": "date-time"}
    assert schedule["payload"]["contentEncoding"] == "base64"


async def test_a_task_and_a_call_may_be_on_demand(rig: Rig) -> None:
    path = f"/v1/tasks/{(await post(rig, f'{TEAS}?in=1h&on_demand=true&expire_after=10m', b'x')).json['task_id']}"
    assert (await rig.caller.ask("GET", path)).json["on_demand"] is True
    path = f"/v1/tasks/{(await post(rig, f'{TEAS}?in=1h', b'x')).json['task_id']}"
    assert "on_demand" not in (await rig.caller.ask("GET", path)).json
    refused = await post(rig, f"{TEAS}?in=1h&on_demand=yes", b"x")
    assert (refused.status, refused.json["message"]) == (400, "on_demand is 'yes': write true or false.")
    endless = await post(rig, f"{TEAS}?in=1h&on_demand=true", b"x")
    assert (endless.status, "of up to 600 s, or leave on_demand out" in endless.json["message"]) == (400, True)
    path = f"/v1/tasks/{(await post(rig, '/v1/queues/nobody/call?timeout=10ms', b'x')).json['task_id']}"
    assert (await rig.caller.ask("GET", path)).json["on_demand"] is True


async def test_a_task_says_where_its_end_makes_another_one(rig: Rig) -> None:
    path = f"/v1/tasks/{(await post(rig, f'{TEAS}?in=1h&on_end=ends', b'x')).json['task_id']}"
    assert (await rig.caller.ask("GET", path)).json["on_end"] == "ends"
    assert (await post(rig, f"{TEAS}?in=1h&on_end=two%20words", b"x")).status == 400
