"""A short route of people who look on: deliveries as they happen, a line of JSON for what came together."""

from __future__ import annotations

import json

from google.protobuf.message import Message

from timerd.services.operating.watching import MOST_PER_SECOND
from timerd.v1 import watch_pb2 as pb
from timerd.web.front import HttpCall
from timerd.web.plain import count_of, plain
from timerd.web.route import ShortRoute, namespace_of


async def _watch(call: HttpCall) -> object:
    query = call.request.query
    request = pb.WatchRequest(
        namespace=namespace_of(call),
        queue=query.get("queue", ""),
        max_per_second=count_of(query.get("max_per_second", "50"), "max_per_second", 1, MOST_PER_SECOND),
    )
    return await call.stream("/timerd.v1.TimerService/Watch", request.SerializeToString(), _line)


def _line(said: Message) -> bytes:
    """With all its fields, for a line may be read by itself."""
    empty: dict[str, object] = {"events": [], "left_out": 0, "silent": []}
    return (json.dumps({**empty, **plain(said)}, ensure_ascii=False) + "\n").encode(errors="replace")


WATCH_ROUTES = [
    ShortRoute(
        "GET",
        "/v1/watch",
        _watch,
        "Deliveries of all instances as they happen: lines of JSON, {events, left_out, silent}.",
        {"queue": "only this queue", "max_per_second": "how many at most are told in a second; 50 where left out"},
        is_endless=True,
    )
]
