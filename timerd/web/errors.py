"""What failed, as the Connect protocol says it: a status of HTTP by the code, and {code, message, details} as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from math import ceil
from typing import Any

from aiohttp import web
from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from grpc_status import rpc_status

from timerd.services.transport.local_calls import CallFailure

STATUS = {
    StatusCode.CANCELLED: 499,
    StatusCode.UNKNOWN: 500,
    StatusCode.INVALID_ARGUMENT: 400,
    StatusCode.DEADLINE_EXCEEDED: 504,
    StatusCode.NOT_FOUND: 404,
    StatusCode.ALREADY_EXISTS: 409,
    StatusCode.PERMISSION_DENIED: 403,
    StatusCode.RESOURCE_EXHAUSTED: 429,
    StatusCode.FAILED_PRECONDITION: 400,
    StatusCode.ABORTED: 409,
    StatusCode.OUT_OF_RANGE: 400,
    StatusCode.UNIMPLEMENTED: 501,
    StatusCode.INTERNAL: 500,
    StatusCode.UNAVAILABLE: 503,
    StatusCode.DATA_LOSS: 500,
    StatusCode.UNAUTHENTICATED: 401,
}


def response_of(failed: CallFailure) -> web.Response:
    headers = {}
    if (wait_ms := failed.trailers.get("timerd-retry-after-ms")) is not None:
        headers["Retry-After"] = str(ceil(int(wait_ms) / 1000))
    if failed.code is StatusCode.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    status = STATUS[failed.code]
    return web.Response(status=status, body=body_of(failed), content_type="application/json", headers=headers)


def body_of(failed: CallFailure) -> bytes:
    """A line of JSON."""
    body: dict[str, Any] = {"code": _name(failed.code), "message": failed.message}
    if details := list(_details(failed)):
        body["details"] = details
    return (json.dumps(body, ensure_ascii=False) + "\n").encode(errors="replace")


def _name(code: StatusCode) -> str:
    """Connect writes it with one l."""
    return "canceled" if code is StatusCode.CANCELLED else code.name.lower()


def _details(failed: CallFailure) -> Iterator[dict[str, Any]]:
    """Those of google.rpc.Status; `debug` is the same for people."""
    packed = failed.trailers.get(rpc_status.GRPC_DETAILS_METADATA_KEY, b"")
    for detail in Status.FromString(packed if isinstance(packed, bytes) else b"").details:
        value = base64.b64encode(detail.value).decode().rstrip("=")
        yield {"type": detail.TypeName(), "value": value, "debug": _debug(detail)}


def _debug(detail: AnyMessage) -> dict[str, Any]:
    shown: dict[str, Any] = json_format.MessageToDict(detail)
    del shown["@type"]
    return shown
