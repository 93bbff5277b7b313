"""Callers that no library of gRPC would be, at both doors: who is refused at one is refused at the other."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest

from tests.services.api_rig import NOW_MS, Rig, running
from tests.services.native_rig import DOORS, needs_native
from tests.services.raw_http2 import (
    DATA,
    END_STREAM,
    REFUSED,
    REPLIED,
    RESET,
    RST_STREAM,
    frame,
    head,
    message,
    raw_caller,
    usual,
)
from timerd.v1 import timer_service_pb2 as wire

pytestmark = needs_native
SERVICE = "/timerd.v1.TimerService"
SCHEDULE, GET = f"{SERVICE}/Schedule", f"{SERVICE}/Get"
ORDER = wire.ScheduleRequest(request_id="r")
ORDER.template.queue = "q"
ORDER.fire_time.FromMilliseconds(NOW_MS)
RAW = ORDER.SerializeToString()
PLAIN, PACKED = message(RAW), message(gzip.compress(RAW), packed=1)
SHORT, LONG, GZIP = ("grpc-timeout", "1n"), ("grpc-timeout", "9S"), ("grpc-encoding", "gzip")
Headers = list[tuple[str, str]]


def asked(*more: tuple[str, str], path: str = SCHEDULE, **changes: str | None) -> Headers:
    return [*usual(path, **changes).items(), *more]


# What is said, and what becomes of it.
CASES: dict[str, tuple[Headers, bytes, str]] = {
    "as a client has it": (asked(LONG), PLAIN, REPLIED),
    "two messages": (asked(), PLAIN * 2, REPLIED),
    "a byte too much": (asked(), PLAIN + b"x", REPLIED),
    "half a message, until its time is over": (asked(("grpc-timeout", "50m")), PLAIN[:-3], REFUSED),
    "packed": (asked(GZIP), PACKED, REPLIED),
    "said to be packed, and is not": (asked(GZIP), PLAIN, REPLIED),
    "packed badly": (asked(GZIP), message(b"no gzip", packed=1), REFUSED),
    "packed to more than a message may have": (asked(GZIP), message(gzip.compress(bytes(40 << 20)), packed=1), REFUSED),
    "packed in a way that nobody knows": (asked(("grpc-encoding", "snappy")), PLAIN, RESET),
    "no message of ours": (asked(), message(b"\xff" * 30), REFUSED),
    "no te": (asked(te=None), PLAIN, REFUSED),
    "no authority": (asked(authority=None), PLAIN, REFUSED),
    "a host for an authority": (asked(("host", "localhost"), authority=None), PLAIN, REPLIED),
    "another scheme": (asked(scheme="ftp"), PLAIN, RESET),
    "another verb": (asked(method="PUT"), PLAIN, REFUSED),
    "a question behind the path": (asked(path=f"{SCHEDULE}?x=1"), PLAIN, REFUSED),
    "a question mark behind the path": (asked(path=f"{SCHEDULE}?"), PLAIN, REFUSED),
    "no method": (asked(path=f"{SERVICE}/Nothing"), PLAIN, REFUSED),
    "no time in the end": (asked(LONG, SHORT), PLAIN[:-3], REFUSED),
    "time in the end": (asked(SHORT, LONG), PLAIN, REPLIED),
    "no time that could be read": (asked(("grpc-timeout", "1x")), PLAIN, RESET),
    "binary headers": (asked(("x-one-bin", "QUI="), ("x-two-bin", "QQ")), PLAIN, REPLIED),
    "two binary values in one header": (asked(("x-one-bin", "QUI,QQ")), PLAIN, RESET),
    "binary headers with bits left over": (asked(("x-one-bin", "QR")), PLAIN, RESET),
    "binary headers that are none": (asked(("x-one-bin", "!!!!")), PLAIN, RESET),
}


async def outcome(rig: Rig, headers: Headers, body: bytes) -> str:
    async with raw_caller(rig.target) as caller:
        caller.write(head(1, headers), *parts(body))
        return await caller.outcome(1)


def parts(body: bytes, size: int = 16_000) -> list[bytes]:
    """Frames without an end."""
    return [frame(DATA, 0, 1, body[at : at + size]) for at in range(0, len(body), size)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("door", DOORS)
async def test_odd_callers_are_treated_alike(door: str, case: tuple[Headers, bytes, str]) -> None:
    headers, body, becomes = case
    async with running(front_door=door) as rig:
        assert await outcome(rig, headers, body) == becomes


@pytest.mark.parametrize("door", DOORS)
async def test_a_call_that_is_taken_back_in_the_middle_takes_no_other_along(door: str) -> None:
    async with running(front_door=door) as rig, raw_caller(rig.target) as caller:
        caller.write(head(1, asked()), frame(DATA, 0, 1, PLAIN[:-3]), frame(RST_STREAM, 0, 1, b"\0\0\0\x08"))
        caller.write(head(3, asked()), frame(DATA, END_STREAM, 3, PLAIN))
        assert await caller.outcome(3) == REPLIED
        assert len(rig.verbs.scheduled) == 1


# More than frames that nobody expects any more are borne in the life of a connection.
LATE, AT_ONCE = 1_500, 100
ENDS: dict[str, tuple[Headers, Callable[[int], list[bytes]]]] = {
    "answered": (asked(path=GET), lambda stream: [frame(DATA, 0, stream, message(b""))]),
    "refused for its headers": (asked(("x-one", "y" * 16_150), path=GET), lambda _: []),
    "out of time": (asked(SHORT, path=GET), lambda _: []),
}


@pytest.mark.parametrize("case", ENDS.values(), ids=ENDS.keys())
async def test_a_connection_outlives_calls_that_end_after_their_answer(
    case: tuple[Headers, Callable[[int], list[bytes]]],
) -> None:
    headers, said = case
    async with running(front_door="native") as rig, raw_caller(rig.target) as caller:
        for first in range(1, 2 * LATE, 2 * AT_ONCE):
            streams = range(first, first + 2 * AT_ONCE, 2)
            for stream in streams:
                caller.write(head(stream, headers), *said(stream))
            assert {await caller.outcome(stream) for stream in streams} == {REFUSED}
            caller.write(*(frame(DATA, END_STREAM, stream) for stream in streams))
        last = 2 * LATE + 2 * AT_ONCE + 1
        caller.write(head(last, asked()), frame(DATA, END_STREAM, last, PLAIN))
        assert await caller.outcome(last) == REPLIED
