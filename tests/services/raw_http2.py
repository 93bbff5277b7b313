"""A caller that writes its frames of HTTP/2 by hand, so it can say what no library would: half a request, an end that
comes late. Of what comes back it reads the kinds of frames, since headers are packed."""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
END_STREAM = ACK = 1
END_HEADERS = 4
_LONG = 0x7F
_OPENING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
USUAL = {
    ":method": "POST",
    ":scheme": "http",
    ":path": "/",
    ":authority": "localhost",
    "te": "trailers",
    "content-type": "application/grpc",
}
# What became of a call.
REPLIED, REFUSED, RESET, CUT_OFF = "replied", "refused", "reset", "cut off"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def message(raw: bytes, *, packed: int = 0) -> bytes:
    """As gRPC has it in DATA."""
    return struct.pack(">BI", packed, len(raw)) + raw


def head(stream: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """Each header is a literal without an index."""
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in headers)
    return frame(HEADERS, END_HEADERS, stream, block)


def _text(text: str) -> bytes:
    raw = text.encode()
    if len(raw) < _LONG:
        return bytes([len(raw)]) + raw
    rest, length = len(raw) - _LONG, bytearray([_LONG])
    while rest > _LONG:
        length.append(rest & _LONG | 0x80)
        rest >>= 7
    return bytes(length) + bytes([rest]) + raw


def usual(path: str, **changes: str | None) -> Mapping[str, str]:
    """The headers of a client of gRPC. None: without that one; `_` stands for what a name in Python cannot have."""
    changed = {(name if name in USUAL else f":{name}"): value for name, value in changes.items()}
    return {name: value for name, value in ({**USUAL, ":path": path} | changed).items() if value is not None}


class RawCaller:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._streams: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._changed = asyncio.Event()
        self._is_cut_off = False

    def write(self, *frames: bytes) -> None:
        self._writer.write(b"".join(frames))

    async def outcome(self, stream: int) -> str:
        """Returns when the call is over."""
        while not (told := self._told(stream)):
            self._changed.clear()
            await self._changed.wait()
        return told

    def _told(self, stream: int) -> str:
        for kind, flags in self._streams[stream]:
            if kind == RST_STREAM:
                return RESET
            if flags & END_STREAM:
                return REPLIED if any(each == DATA for each, _ in self._streams[stream]) else REFUSED
        return CUT_OFF if self._is_cut_off else ""

    async def read(self) -> None:
        """Until the other side hangs up."""
        try:
            while True:
                length, kind, flags, stream = struct.unpack(">IBBI", b"\0" + await self._reader.readexactly(9))
                self._take(kind, flags, stream, await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            self._is_cut_off = True
        finally:
            self._changed.set()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind in (SETTINGS, PING) and not flags & ACK:
            self.write(frame(kind, ACK, 0, payload if kind == PING else b""))
        elif kind in (DATA, HEADERS, RST_STREAM):
            self._streams[stream].append((kind, 0 if kind == RST_STREAM else flags))
            self._changed.set()


@asynccontextmanager
async def raw_caller(target: str) -> AsyncIterator[RawCaller]:
    host, _, port = target.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    caller = RawCaller(reader, writer)
    # Answers of any number: the window of the connection is as wide as it can be.
    caller.write(_OPENING, frame(SETTINGS, 0, 0), frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))
    reading = asyncio.create_task(caller.read())
    try:
        yield caller
    finally:
        reading.cancel()
        writer.close()
        await asyncio.gather(reading, return_exceptions=True)
