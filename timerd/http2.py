"""The pieces of HTTP/2 that a gRPC stream needs (RFC 9113, and gRPC over HTTP/2), without I/O.

The SDK's end of a stream (sdk/one_stream.py) and the server's (services/transport/served_stream.py) are made of them.
Why there is anything beside grpcio at all is said there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
ACK = END_STREAM = 1
END_HEADERS, PADDED, PRIORITY = 4, 8, 32
PRIORITY_BYTES = 5
ENABLE_PUSH, MOST_STREAMS, INITIAL_WINDOW, MAX_FRAME = 2, 3, 4, 5
FIRST_WINDOW_BYTES = 65_535
# The only stream of a connection.
STREAM = 1
# What everybody takes, and what is taken here: a large message is cut by its sender, and put together here.
MAX_FRAME_BYTES = 16_384
MAX_TAKEN_FRAME_BYTES = 1 << 20
U32 = struct.Struct(">I")
# Without the bit that is reserved.
NUMBER = 0x7FFF_FFFF
_SETTING = struct.Struct(">HI")
_HEAD = struct.Struct(">HBBBI")
_HEAD_BYTES = _HEAD.size
# Such a head, and the prefix of a message.
_LONE = struct.Struct(">HBBBIBI")
MESSAGE_PREFIX_BYTES = 5
Frame = tuple[int, int, int, bytes]


class Ended(Exception):
    """By the other side, or because what it sent is not to be understood: nothing more can be said here."""


def frame(kind: int, flags: int, stream: int, content: bytes | bytearray) -> bytes:
    return b"".join((_head(len(content), kind, flags, stream), content))


def _head(size_bytes: int, kind: int, flags: int, stream: int) -> bytes:
    return _HEAD.pack(size_bytes >> 8, size_bytes & 0xFF, kind, flags, stream)


def settings(wishes: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*wish) for wish in wishes.items()))


def room_for(more_bytes: int) -> list[bytes]:
    """Says that so much more may come, on the connection and on the stream."""
    room = U32.pack(more_bytes)
    return [frame(WINDOW_UPDATE, 0, 0, room), frame(WINDOW_UPDATE, 0, STREAM, room)]


def unpadded(flags: int, content: bytes) -> bytes:
    if not flags & PADDED:
        return content
    if content[0] >= len(content):
        raise Ended("There came more padding than content.")
    return content[1 : len(content) - content[0]]


def header(name: str, value: str) -> bytes:
    """A header field as text (RFC 7541, 6.2.3), so that no table on the way keeps a token."""
    return b"\x10" + _text(name) + _text(value)


def _text(value: str) -> bytes:
    """RFC 7541, 5.1 and 5.2: its length with a prefix of seven bits, then the bytes."""
    raw = value.encode()
    length = len(raw)
    if length < 0x7F:
        return bytes((length,)) + raw
    head, length = bytearray((0x7F,)), length - 0x7F
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes((*head, length)) + raw


def lone_message(data: bytes) -> bytes | None:
    """Where it is all of one message in one frame, as most that comes is."""
    if len(data) < _LONE.size:
        return None
    high, low, kind, flags, stream, is_compressed, size_bytes = _LONE.unpack_from(data)
    framed_bytes = size_bytes + MESSAGE_PREFIX_BYTES
    if kind or flags or is_compressed or stream != STREAM or (high << 8 | low) != framed_bytes:
        return None
    return data[_LONE.size :] if len(data) == framed_bytes + _HEAD_BYTES else None


class Frames:
    """What came, in frames."""

    def __init__(self) -> None:
        self._came = b""

    @property
    def is_empty(self) -> bool:
        """Nothing came of the next one yet."""
        return not self._came

    def take(self, data: bytes) -> Iterator[Frame]:
        """Kind, flags, stream and content of those that are whole now. Raises Ended."""
        came = self._came + data if self._came else data
        self._came = b""
        at = 0
        while len(came) - at >= _HEAD_BYTES:
            size_bytes = int.from_bytes(came[at : at + 3])
            if size_bytes > MAX_TAKEN_FRAME_BYTES:
                raise Ended("There came a frame that is too long.")
            end = at + _HEAD_BYTES + size_bytes
            if end > len(came):
                break
            stream = U32.unpack_from(came, at + 5)[0] & NUMBER
            yield came[at + 3], came[at + 4], stream, came[at + _HEAD_BYTES : end]
            at = end
        self._came = came[at:]


class Inbox:
    """What came of messages."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._body = bytearray()
        # What came last is no message of gRPC, or one that is too long: nothing after it can be told apart.
        self.is_spoilt = False

    def __len__(self) -> int:
        """Bytes of what is not whole yet."""
        return len(self._body)

    def add(self, content: bytes) -> None:
        self._body += content

    def whole(self) -> list[bytes]:
        """Those that are whole now."""
        body, at, found = self._body, 0, list[bytes]()
        while len(body) - at >= MESSAGE_PREFIX_BYTES:
            is_compressed, size_bytes = body[at], U32.unpack_from(body, at + 1)[0]
            if is_compressed or size_bytes > self._most_bytes:
                self.is_spoilt = True
                break
            end = at + MESSAGE_PREFIX_BYTES + size_bytes
            if end > len(body):
                break
            found.append(bytes(body[at + MESSAGE_PREFIX_BYTES : end]))
            at = end
        del body[:at]
        return found


class Outbox:
    """Messages that wait, and what the other side has room for: on the connection, and on the stream."""

    def __init__(self) -> None:
        self._ready: list[bytes] = []
        self._waiting = bytearray()
        self._room_bytes = self._stream_room_bytes = self._stream_window_bytes = FIRST_WINDOW_BYTES
        self._frame_bytes = MAX_FRAME_BYTES

    @property
    def is_full(self) -> bool:
        """There is no room for all that was said."""
        return len(self._waiting) > 0

    @property
    def is_empty(self) -> bool:
        return not (self._ready or self._waiting)

    def add(self, message: bytes) -> None:
        size_bytes = MESSAGE_PREFIX_BYTES + len(message)
        prefix = b"\0" + U32.pack(len(message))
        if self._waiting or size_bytes > min(self._room_bytes, self._stream_room_bytes, self._frame_bytes):
            self._waiting += prefix
            self._waiting += message
            return
        # One frame, put together without a copy of its own.
        self._used(size_bytes)
        self._ready += (_head(size_bytes, DATA, 0, STREAM) + prefix, message)

    def on_room(self, stream: int, more_bytes: int) -> None:
        if stream:
            self._stream_room_bytes += more_bytes
        else:
            self._room_bytes += more_bytes

    def on_settings(self, content: bytes) -> None:
        for name, value in _SETTING.iter_unpack(content):
            if name == INITIAL_WINDOW:
                self._stream_room_bytes += value - self._stream_window_bytes
                self._stream_window_bytes = value
            elif name == MAX_FRAME:
                self._frame_bytes = max(MAX_FRAME_BYTES, min(value, MAX_TAKEN_FRAME_BYTES))

    def frames(self) -> list[bytes]:
        """As many as there is room for; they are gone then."""
        found, self._ready = self._ready, []
        waiting, step = self._waiting, self._frame_bytes
        size_bytes = min(len(waiting), self._room_bytes, self._stream_room_bytes)
        if size_bytes > 0:
            starts = range(0, size_bytes, step)
            found += [frame(DATA, 0, STREAM, waiting[at : min(at + step, size_bytes)]) for at in starts]
            del waiting[:size_bytes]
            self._used(size_bytes)
        return found

    def _used(self, size_bytes: int) -> None:
        self._room_bytes -= size_bytes
        self._stream_room_bytes -= size_bytes
