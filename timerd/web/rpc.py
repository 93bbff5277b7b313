"""Each unary method as `POST /package.Service/Method`, in JSON or as protobuf: the unary half of the Connect protocol.

It knows no service: what it needs of a method is in the descriptors, so a new one is served as soon as it is there.
"""

from __future__ import annotations

from difflib import get_close_matches

from aiohttp import web
from google.protobuf import descriptor_pool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc import StatusCode

from timerd.config import KIB
from timerd.model.errors import Invalid
from timerd.services.transport.local_calls import CallFailure
from timerd.web.errors import response_of
from timerd.web.front import Front, HttpCall
from timerd.web.json_form import read_json, write_json

PATH = r"/{service:timerd\.v1\.\w+}/{method:\w+}"
JSON, PROTO = "application/json", "application/proto"
MAX_REPLY_BYTES = 256 * KIB
# Methods that change nothing may be refused for their reply. That of a change is as large as what was asked for.
_READING = ("Get", "List", "Count", "Preview")


def rpc_routes(front: Front) -> list[web.RouteDef]:
    return [web.post(PATH, front.handler(_answer))]


async def _answer(call: HttpCall) -> web.StreamResponse:
    form = call.request.content_type
    if form not in (JSON, PROTO):
        return _unknown_form()
    if call.request.headers.get("Connect-Protocol-Version", "1") != "1":
        raise CallFailure(StatusCode.INVALID_ARGUMENT, "Connect-Protocol-Version is 1 here.")
    service, name = call.request.match_info["service"], call.request.match_info["method"]
    method = f"/{service}/{name}"
    request = await _request(service, name, call.body) if form == JSON else call.body
    reply = await call.rpc(method, request)
    if reply.ByteSize() > MAX_REPLY_BYTES and name.startswith(_READING):
        raise _reply_too_large(reply)
    body = await write_json(reply) if form == JSON else reply.SerializeToString()
    return web.Response(body=body, content_type=form)


async def _request(service: str, name: str, body: bytes) -> bytes:
    """The message that the JSON is, as gRPC would have brought it. Raises Invalid, or CallFailure."""
    try:
        method = descriptor_pool.Default().FindMethodByName(f"{service}.{name}")
    except KeyError:
        raise CallFailure(StatusCode.UNIMPLEMENTED, _no_method(service, name)) from None
    message: Message = GetMessageClass(method.input_type)()
    return (await read_json(body, message)).SerializeToString()


def _no_method(service: str, name: str) -> str:
    try:
        methods = [each.name for each in descriptor_pool.Default().FindServiceByName(service).methods]
    except KeyError:
        methods = []
    near = "".join(f"the nearest is {each}, and " for each in get_close_matches(name, methods, 1))
    return f"There is no method /{service}/{name}: {near}GET /openapi.json lists those that there are."


def _reply_too_large(reply: Message) -> Invalid:
    return Invalid(
        f"The reply has {reply.ByteSize():,} bytes, and by HTTP it may have {MAX_REPLY_BYTES:,}: ask for a smaller "
        "page (pageSize), or use gRPC.",
        "page_size",
        "REPLY_TOO_LARGE",
    )


def _unknown_form() -> web.Response:
    """415, as Connect wants it."""
    response = response_of(
        CallFailure(StatusCode.INVALID_ARGUMENT, f"A request is {JSON} or {PROTO}: say so in its Content-Type.")
    )
    response.set_status(415)
    response.headers["Accept-Post"] = f"{JSON}, {PROTO}"
    return response
