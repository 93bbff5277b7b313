"""ListAuditedCalls: what operators did, from the store."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from timerd.model.errors import Invalid
from timerd.services.calls.fields import at_most
from timerd.services.transport.audit_log import AuditedCall
from timerd.services.transport.audit_records import AuditRecords, is_call_id
from timerd.v1 import overview_service_pb2 as pb

DEFAULT_PAGE, MOST_PAGE = 100, 1_000
# Of one call, where a filter leaves most of them out.
MOST_SCANNED = 5_000


class AuditedCalls:
    """One method a verb."""

    def __init__(self, records: AuditRecords) -> None:
        self._records = records

    def verbs(self) -> Mapping[str, Callable[[Any], Awaitable[Message]]]:
        return {"ListAuditedCalls": self.list_audited_calls}

    async def list_audited_calls(self, request: pb.ListAuditedCallsRequest) -> pb.ListAuditedCallsResponse:
        if request.page_token and not is_call_id(request.page_token):
            raise Invalid("page_token is none that this server gave: begin without one.", "page_token")
        start_ms = _instant_ms(request.start_time) if request.HasField("start_time") else 0
        end_ms = _instant_ms(request.end_time) if request.HasField("end_time") else self._records.now_ms() + 1
        if end_ms <= start_ms:
            raise Invalid("The range ends before it begins: choose a later end_time.", "end_time")
        limit = at_most(request.page_size, DEFAULT_PAGE, MOST_PAGE)
        reply, scanned = pb.ListAuditedCallsResponse(), 0
        async for call in self._records.calls(start_ms, end_ms, request.page_token):
            scanned += 1
            if request.caller in ("", call.caller) and request.method in ("", call.method):
                reply.calls.append(_message(call))
            if len(reply.calls) == limit or scanned == MOST_SCANNED:
                reply.next_page_token = call.id
                break
        return reply


def _message(call: AuditedCall) -> pb.AuditedCall:
    said = pb.AuditedCall(id=call.id, caller=call.caller, peer=call.peer, method=call.method, outcome=call.outcome)
    said.request_time.FromJsonString(call.at)
    said.request = json.dumps(call.request, ensure_ascii=False)
    said.result = call.result if isinstance(call.result, str) else json.dumps(call.result, ensure_ascii=False)
    return said


def _instant_ms(time: Timestamp) -> int:
    return time.seconds * 1000 + time.nanos // 1_000_000
