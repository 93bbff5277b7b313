"""One call after the other, each with the same bytes and by one instance after the other until it is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import Message

from tests.chaos.recurring.records import OK
from timerd.demo.records import now_ms
from timerd.v1.schedule_service_pb2_grpc import ScheduleServiceStub

_TRY_S = 20.0
_PAUSE_S = 0.2
_AGAIN = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.CANCELLED,
)


class Answer(NamedTuple):
    """`reply` is None where it was refused; `outcome` says why."""

    outcome: str
    reply: Any
    asked_ms: float
    answered_ms: float
    tries: int


class Asking:
    """By several instances. What is asked is marked in the file `asked` before it is sent, and when it is answered."""

    def __init__(self, addresses: Sequence[str], asked: Path, rng: Random) -> None:
        self._channels = [grpc.aio.insecure_channel(each) for each in addresses]
        self._stubs: list[Any] = [ScheduleServiceStub(each) for each in self._channels]
        self._asked = asked.open("a", encoding="utf-8")
        self._rng = rng
        self._count = 0

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()

    async def __call__(self, method: str, request: Message) -> Answer:
        self._count += 1
        call, asked_ms, first = self._count, now_ms(), self._rng.randrange(len(self._stubs))
        self._mark("asked", call)
        tries = 0
        while True:
            stub = self._stubs[(first + tries) % len(self._stubs)]
            tries += 1
            try:
                reply = await getattr(stub, method)(request, timeout=_TRY_S)
            except grpc.aio.AioRpcError as error:
                if error.code() in _AGAIN:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                outcome, reply = f"{error.code().name}: {error.details()}", None
            else:
                outcome = OK
            self._mark("answered", call)
            return Answer(outcome, reply, asked_ms, now_ms(), tries)

    def _mark(self, what: str, call: int) -> None:
        self._asked.write(json.dumps({"what": what, "call": call, "at_ms": now_ms()}) + "\n")
        self._asked.flush()
