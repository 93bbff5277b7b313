"""A short route of operators: what they did."""

from __future__ import annotations

import json

from timerd.services.operating.audited_calls import MOST_PAGE
from timerd.v1 import overview_service_pb2 as pb
from timerd.web.front import HttpCall
from timerd.web.plain import count_of, instant_of
from timerd.web.route import ShortRoute, ask


async def _list(call: HttpCall) -> object:
    query = call.request.query
    request = pb.ListAuditedCallsRequest(
        caller=query.get("caller", ""),
        method=query.get("method", ""),
        start_time=instant_of(query["from"], "from") if "from" in query else None,
        end_time=instant_of(query["to"], "to") if "to" in query else None,
        page_size=count_of(query.get("max", "100"), "max", 1, MOST_PAGE),
        page_token=query.get("page_token", ""),
    )
    reply: pb.ListAuditedCallsResponse = await ask(call, "OverviewService/ListAuditedCalls", request)
    return {"calls": list(map(_plain, reply.calls)), "next_page_token": reply.next_page_token}


def _plain(call: pb.AuditedCall) -> dict[str, object]:
    """As a line of the file has it."""
    return {
        "at": call.request_time.ToJsonString(),
        "caller": call.caller,
        "peer": call.peer,
        "method": call.method,
        "request": json.loads(call.request),
        "outcome": call.outcome,
        "result": json.loads(call.result) if call.outcome == "OK" else call.result,
        "id": call.id,
    }


AUDIT_ROUTES = [
    ShortRoute(
        "GET",
        "/v1/audit",
        _list,
        "What operators did in the last 90 days, the newest first.",
        {
            "caller": "only what this caller did",
            "method": "only this method, as Purge",
            "from": "asked from this instant on, as 2030-01-01T09:00:00Z",
            "to": "asked before this instant",
            "max": "how many at most; 100 where left out",
            "page_token": "next_page_token of the answer before",
        },
    )
]
