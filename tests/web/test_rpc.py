"""Each unary method by HTTP: it answers as by gRPC."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from tests.web.examples import EXAMPLES, LATER, PAYLOAD, in_order, request_of
from tests.web.rig import UNARY, Answer, Rig, serving
from timerd.v1 import timer_service_pb2 as wire
from timerd.web.errors import STATUS

PROTO = {"Content-Type": "application/proto"}
SCHEDULE = {"template": {"queue": "mails"}, "payload": PAYLOAD, "fireTime": LATER}


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with serving() as running:
        yield running


def path_of(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


async def by_grpc(rig: Rig, method: MethodDescriptor, request: Message) -> Message | grpc.aio.AioRpcError:
    reply = GetMessageClass(method.output_type)
    call: Any = rig.channel.unary_unary(
        path_of(method), request_serializer=type(request).SerializeToString, response_deserializer=reply.FromString
    )
    try:
        answer: Message = await call(request)
    except grpc.aio.AioRpcError as error:
        return error
    return answer


async def by_http(rig: Rig, method: MethodDescriptor, request: Message) -> Answer:
    text = json_format.MessageToJson(request).encode()
    return await rig.caller.ask("POST", path_of(method), text, {"Content-Type": "application/json"})


def assert_same(method: MethodDescriptor, said: Message | grpc.aio.AioRpcError, answer: Answer) -> None:
    assert answer.headers["Content-Type"].startswith("application/json"), method.name
    if isinstance(said, Message):
        assert answer.status == 200, (method.name, answer.body)
        assert json_format.Parse(answer.body, type(said)()) == said, method.name
        return
    assert answer.status == STATUS[said.code()], (method.name, answer.body)
    assert (answer.json["code"], answer.json["message"]) == (said.code().name.lower(), said.details())
    trailers = dict(tuple(said.trailing_metadata() or ()))
    details = Status.FromString(trailers.get("grpc-status-details-bin", b"")).details
    shown = [(each["type"], padded(each["value"])) for each in answer.json.get("details", ())]
    assert shown == [(detail.TypeName(), detail.value) for detail in details], method.name


def padded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4))


async def test_every_unary_method_answers_by_json_as_by_grpc(rig: Rig) -> None:
    """A repeat of a call is answered as the first time, so each is made both ways."""
    task_id = "?"
    for method in in_order(UNARY):
        request = request_of(method, EXAMPLES.get(method.name, {}), task_id)
        said = await by_grpc(rig, method, request)
        assert_same(method, said, await by_http(rig, method, request))
        assert isinstance(said, Message) or method.name not in EXAMPLES or method.name == "FireNow", said
        if isinstance(said, wire.ScheduleResponse):
            task_id = said.task_id


async def test_every_unary_method_refuses_by_json_as_by_grpc(rig: Rig) -> None:
    for method in UNARY:
        request = request_of(method, {"namespace": "no such/namespace!"}, "?")
        said = await by_grpc(rig, method, request)
        assert_same(method, said, await by_http(rig, method, request))


async def test_protobuf_is_taken_and_answered_too(rig: Rig) -> None:
    request = json_format.ParseDict(SCHEDULE, wire.ScheduleRequest())
    path = "/timerd.v1.TimerService/Schedule"
    answer = await rig.caller.ask("POST", path, request.SerializeToString(), PROTO)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/proto")
    task_id = wire.ScheduleResponse.FromString(answer.body).task_id
    assert (await rig.caller.rpc("TimerService/Get", {"taskId": task_id})).json["task"]["payload"] == PAYLOAD
    spoilt = await rig.caller.ask("POST", path, b"\xff\xff", PROTO)
    assert (spoilt.status, spoilt.json["code"], spoilt.reason) == (400, "invalid_argument", "MALFORMED")


WRONG = [
    (b"{", "is no timerd.v1.ScheduleRequest in JSON"),
    (b"\xff", "codec can't decode"),
    (b"[" * 100_000, "nested too deeply"),
    (b"[]", "is no timerd.v1.ScheduleRequest in JSON"),
    (b'{"payload": "tea is ready"}', "payload holds bytes, which are written in base64"),
    (b'{"items": 1}', "items is no field here: use namespace, requestId, template, payload"),
    (b'{"request_Id": "a"}', "request_Id is no field here: the nearest is requestId."),
    (b'{"template": {"queu": "m"}}', "template.queu is no field here: the nearest is queue."),
    (b'{"template": "m"}', "template is 'm': write its fields in braces."),
    (b'{"template": [1]}', "template is a list: write its fields in braces."),
    (b'{"template": {"queue": 5}}', "template.queue is 5: write a text in quotes."),
    (
        b'{"template": {"priority": "high"}}',
        "template.priority is 'high': write a whole number from 0 to 4,294,967,295.",
    ),
    (b'{"template": {"priority": -1}}', "template.priority is -1: write a whole number from 0 to"),
    (b'{"template": {"priority": true}}', "template.priority is True: write a whole number from 0 to"),
    (b'{"template": {"priority": 2.5}}', "template.priority is 2.5: write a whole number from 0 to"),
    (b'{"template": {"labels": ["a"]}}', "template.labels is a list: write names and values in braces"),
    (b'{"template": {"labels": {"to": 5}}}', "template.labels.to is 5: write a text in quotes."),
    (
        b'{"template": {"onConflict": "MERGE"}}',
        "template.onConflict is 'MERGE': use CONFLICT_POLICY_UNSPECIFIED, CONFLICT_",
    ),
    (b'{"template": {"retry": {"multiplier": "twice"}}}', "template.retry.multiplier is 'twice': write a number."),
    (b'{"payload": 5}', "payload is 5: write base64 in quotes."),
    (b'{"delay": 3}', "delay is 3: write seconds with an s, as 3s or 0.250s."),
    (b'{"delay": "3"}', "delay is '3': write seconds with an s, as 3s or 0.250s."),
    (
        b'{"fireTime": "tomorrow"}',
        "fireTime is 'tomorrow': write an instant as 2030-01-01T09:00:00Z, or with an offset",
    ),
    (b'{"fireTime": "2031-01-01T00:00:00Z", "delay": "3s"}', "Both fireTime and delay are set: give one."),
    (b'{"key": "a", "key": "b"}', "a field stands there twice"),
    (b'{"delay": "soon"}', "delay"),
    (b'{"template": {"priority": 1e99}}', "priority"),
    (b'{"key": "\\ud800"}', "is no timerd.v1.ScheduleRequest in JSON"),
]


@pytest.mark.parametrize(("body", "says"), WRONG)
async def test_what_is_wrong_with_json_is_said(rig: Rig, body: bytes, says: str) -> None:
    answer = await rig.caller.rpc("TimerService/Schedule", body)
    assert (answer.status, answer.json["code"], answer.reason) == (400, "invalid_argument", "MALFORMED")
    assert says in answer.json["message"]


async def test_the_mistake_in_json_is_looked_for_in_lists_and_in_all_kinds_of_fields(rig: Rig) -> None:
    for body, says in (
        (b'{"filter": {"states": "DEAD"}}', "filter.states is 'DEAD': write a list in brackets."),
        (b'{"filter": {"states": ["DEAD"]}}', "filter.states[0] is 'DEAD': use TASK_STATE_UNSPECIFIED, TASK_STATE_"),
        (b'{"pageSize": -1}', "pageSize is -1: write a whole number from"),
        (b'{"includePayload": "yes"}', "includePayload is 'yes': write true or false."),
    ):
        answer = await rig.caller.rpc("TimerService/List", body)
        assert (answer.status, answer.reason) == (400, "MALFORMED")
        assert says in answer.json["message"]
        [violation] = answer.json["details"][1]["debug"]["fieldViolations"]
        assert says.startswith(f"{violation['field']} ")


async def test_an_error_has_details_for_people_and_for_programs(rig: Rig) -> None:
    first = await rig.caller.rpc("TimerService/Schedule", {**SCHEDULE, "key": "tea"})
    taken = await rig.caller.rpc("TimerService/Schedule", {**SCHEDULE, "key": "tea"})
    assert (first.status, taken.status, taken.json["code"]) == (200, 409, "already_exists")
    info = taken.json["details"][0]
    assert (info["type"], info["debug"]["reason"]) == ("google.rpc.ErrorInfo", "KEY_TAKEN")
    assert ErrorInfo.FromString(padded(info["value"])).domain == "timerd"


async def test_what_is_no_unary_method_is_said(rig: Rig) -> None:
    for method in ("TimerService/Invented", "NoService/Get", "WorkService/Work", "TimerService/Session"):
        answer = await rig.caller.rpc(method, {})
        assert (answer.status, answer.json["code"]) == (501, "unimplemented")
    misspelt = await rig.caller.rpc("TimerService/Shedule", {})
    assert "/timerd.v1.TimerService/Shedule: the nearest is Schedule, and GET /openapi.json" in misspelt.json["message"]
    got = await rig.caller.ask("GET", "/timerd.v1.TimerService/Get")
    assert (got.status, got.headers["Allow"]) == (405, "POST")
    assert got.json["message"] == "/timerd.v1.TimerService/Get is not asked by GET, but by POST."
    assert (await rig.caller.ask("POST", "/timerd.peer.v1.InspectService/Inspect", b"{}")).status == 404
    health = await rig.caller.ask("POST", "/grpc.health.v1.Health/Check", b"{}")
    assert health.status == 404


async def test_other_content_is_refused(rig: Rig) -> None:
    """Also that which a page of a stranger can send without asking."""
    for form in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = await rig.caller.ask("POST", "/timerd.v1.TimerService/Count", b"{}", {"Content-Type": form})
        assert (answer.status, answer.headers["Accept-Post"]) == (415, "application/json, application/proto")


async def test_the_headers_of_connect_are_heeded(rig: Rig) -> None:
    good = await rig.caller.rpc("TimerService/Count", {}, {"Connect-Protocol-Version": "1"})
    other = await rig.caller.rpc("TimerService/Count", {}, {"Connect-Protocol-Version": "2"})
    assert (good.status, other.status, other.json["code"]) == (200, 400, "invalid_argument")
    for timeout in ("soon", "-1", "1.5", "9" * 11):
        answer = await rig.caller.rpc("TimerService/Count", {}, {"Connect-Timeout-Ms": timeout})
        assert (answer.status, "connect-timeout-ms" in answer.json["message"]) == (400, True)
    answer = await rig.caller.rpc("TimerService/Count", {}, {"Connect-Timeout-Ms": "5000"})
    assert answer.status == 200


async def test_a_large_request_and_a_large_reply_come_through(rig: Rig) -> None:
    """They are read and written in a thread."""
    payload = base64.b64encode(b"x" * 60_000).decode()
    answer = await rig.caller.rpc("TimerService/Schedule", {**SCHEDULE, "payload": payload})
    found = await rig.caller.rpc("TimerService/Get", {"taskId": answer.json["taskId"]})
    assert found.json["task"]["payload"] == payload


async def test_a_body_and_a_reply_have_bounds(rig: Rig) -> None:
    answer = await rig.caller.rpc("TimerService/Schedule", b"x" * (2 << 20 | 1))
    assert (answer.status, answer.reason) == (400, "MESSAGE_TOO_LARGE")
    items = [{"fireTime": LATER, "payload": base64.b64encode(b"x" * 50_000).decode()} for _ in range(6)]
    batch = {"template": {"queue": "mails"}, "items": {"items": items}}
    assert (await rig.caller.rpc("TimerService/ScheduleBatch", batch)).json["stored"] == 6
    filtered = {"filter": {"queue": "mails", "startTime": "2030-01-01T00:00:00Z", "endTime": "2030-01-02T00:00:00Z"}}
    answer = await rig.caller.rpc("TimerService/List", {**filtered, "includePayload": True})
    assert (answer.status, answer.reason) == (400, "REPLY_TOO_LARGE")
    answer = await rig.caller.rpc("TimerService/List", {**filtered, "includePayload": True, "pageSize": 3})
    assert len(answer.json["tasks"]) == 3


async def test_a_server_that_goes_away_says_so(rig: Rig) -> None:
    rig.server.node.server.local.close()
    answer = await rig.caller.rpc("TimerService/Schedule", SCHEDULE)
    assert (answer.status, answer.json["code"], answer.reason) == (503, "unavailable", "DRAINING")
    assert answer.headers["Retry-After"] == "1"
