"""Where the server has a second way in for streams on this machine, as a Session's first headers say it.

A server without TLS names one to callers that come over loopback; its messages are not carried through grpcio there,
which makes a call cheaper for both sides. Whoever does not get in stays at the ordinary port.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from timerd.sdk.connection import Connection
from timerd.sdk.one_stream import OneStream
from timerd.sdk.trailers import fields_of

SESSION_PATH = "/timerd.v1.TimerService/Session"
HEADER = "timerd-side-door"
# Of who only asks where it is: there is nothing to begin.
_WHERE = ((HEADER, "where"),)
# Beside a server on the same machine; more is not gained by it.
FOUND_WITHIN_S = 1.0
_SAID = re.compile(r"(?:\[(::1)\]|(127\.0\.0\.1)):([0-9]{1,5}) ([0-9a-f]{32})")
_HERE = re.compile(r"localhost|127(?:\.[0-9]{1,3}){3}|::1")
_READ_BYTES = 65_536


class Door(NamedTuple):
    host: str
    port: int
    headers: tuple[tuple[str, str], ...]


def may_have_one(connection: Connection) -> bool:
    address = connection.direct_address()
    return address is not None and not connection.has_tls and _HERE.fullmatch(address[0]) is not None


def door_in(blocks: Sequence[bytes]) -> Door | None:
    """`blocks`: the headers of a Session, as they came."""
    said = _SAID.fullmatch(fields_of(blocks).get(HEADER, ""))
    return said and Door(said[1] or said[2], int(said[3]), ((HEADER, said[4]),))


async def find_door(connection: Connection) -> Door | None:
    """Asks at the ordinary port. Nothing is told to the server, so there is nothing to take back."""
    with suppress(OSError, ValueError, OverflowError):
        async with asyncio.timeout(FOUND_WITHIN_S):
            return await _asked(connection)
    return None


async def _asked(connection: Connection) -> Door | None:
    address = connection.direct_address()
    assert address is not None
    http = OneStream()
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(http.opening(SESSION_PATH, connection, _WHERE))
        while not http.header_blocks and not http.ended and (data := await reader.read(_READ_BYTES)):
            http.take(data)
            writer.write(http.to_send())
        return door_in(http.header_blocks)
    finally:
        writer.transport.abort()
