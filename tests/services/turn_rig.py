"""Calls of one turn of the loop: how they are made, and what is stored by them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from google.protobuf.message import Message

import timerd.testing.async_server as test_servers
from timerd.adapters.memory import MemoryStore
from timerd.model.identity import parse_task_id
from timerd.services.transport.local_calls import Caller, CallFailure, LocalContext
from timerd.testing import Server
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as wire

SCHEDULE = "/timerd.v1.TimerService/Schedule"
LIST = "/timerd.v1.TimerService/List"
MINUTE_MS = 60_000
START_MS = int(test_servers.START.timestamp() * 1000)
# What the store does, by which the engine goes two ways.
WAYS = ("knows repeats", "knows no repeats")


class ForgetfulStore(MemoryStore):
    """As a store of which several instances share the data: it knows no call that comes again."""

    traits = replace(MemoryStore.traits, knows_repeats=False)


def call(
    request_id: str, payload: bytes = b"p", *, after_ms: int = MINUTE_MS, queue: str = "q"
) -> wire.ScheduleRequest:
    request = wire.ScheduleRequest(request_id=request_id, payload=payload, template=task_pb2.TaskTemplate(queue=queue))
    request.fire_time.FromMilliseconds(START_MS + after_ms)
    return request


async def asked(server: Server, request: Message, method: str = SCHEDULE) -> Any:  # noqa: ANN401 - a reply, or a failure
    try:
        return await server.node.server.local.call(method, request.SerializeToString(), LocalContext(Caller()))
    except CallFailure as failed:
        return failed


async def stored(server: Server, namespace: str) -> list[tuple[Any, ...]]:
    request = wire.ListRequest(namespace=namespace, page_size=1_000, include_payload=True)
    # A little before the start: what comes late lives at the time at which it came.
    request.filter.start_time.FromMilliseconds(START_MS - 100 * MINUTE_MS)
    request.filter.end_time.FromMilliseconds(START_MS + 100 * 24 * 60 * MINUTE_MS)
    found: list[tuple[Any, ...]] = []
    while True:
        reply = await asked(server, request, LIST)
        found += [(place(task.task_id), task.queue, task.payload, task.state, task.key) for task in reply.tasks]
        if not reply.next_page_token:
            return found
        request.page_token = reply.next_page_token


def place(task_id: str) -> object:
    """Without the signature of the server."""
    task = parse_task_id(task_id)
    assert task is not None
    return task[:-1]
