"""One gRPC stream on a connection of its own, without I/O: bytes come in, messages go out.

It stands here beside grpcio, through which each message wakes other threads on its way in and on its way out: that
costs several times what the system calls cost, and a delivery the time until those threads have run
(docs/performance.md has the figures).

What one stream needs that stays open is little (RFC 9113, and gRPC over HTTP/2): frames, acknowledgements, how much the
other side has room for. Whatever else there is (names to resolve, proxies, several addresses, what is wrong where no
connection comes about) is left to grpcio, which whoever uses this falls back on.
"""

from __future__ import annotations

import struct

from timerd.sdk.connection import Connection

# Grows by half of it whenever half of it was used.
WINDOW_BYTES = 16 << 20
# What everybody takes, and what is taken here: a large message is cut by its sender, and put together here.
MAX_FRAME_BYTES = 16_384
MAX_TAKEN_FRAME_BYTES = 1 << 20
MAX_MESSAGE_BYTES = 32 << 20
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_ACK = _END_STREAM = 1
_END_HEADERS, _PADDED, _PRIORITY = 4, 8, 32
_PRIORITY_BYTES = 5
_ENABLE_PUSH, _INITIAL_WINDOW, _MAX_FRAME = 2, 4, 5
_FIRST_WINDOW_BYTES = 65_535
_STREAM = 1
# Without the bit that is reserved.
_NUMBER = 0x7FFF_FFFF
_U32 = struct.Struct(">I")
_SETTING = struct.Struct(">HI")
_HEAD_BYTES = 9
_PREFIX_BYTES = 5


class _Ended(Exception):
    """By the other side, or because what it sent is not to be understood: nothing more can be said here."""


class OneStream:
    """`take` what came, then send what `to_send` gives, until it has `ended`."""

    def __init__(self) -> None:
        self._came = b""
        self._body = bytearray()
        self._replies: list[bytes] = []
        self._waiting = bytearray()
        self._is_finishing = self._has_finished = False
        # Of the answer and of its end, as they came.
        self.header_blocks: list[bytes] = []
        # What the other side has room for: on the connection, and on the stream.
        self._room_bytes = self._stream_room_bytes = self._stream_window_bytes = _FIRST_WINDOW_BYTES
        self._used_bytes = 0
        # The other side said that it goes: what is under way is still answered.
        self.is_leaving = False
        # The server has spoken HTTP/2.
        self.has_heard = False
        # Why the other side goes (RFC 9113, 7), where it said so.
        self.error_code = 0
        # A sentence, once it has.
        self.ended = ""
        self._is_last_block = False

    def opening(self, path: str, connection: Connection) -> bytes:
        """What goes first. Raises ValueError where the headers are too long for one frame, OSError where the file with
        the token cannot be read."""
        scheme = "https" if connection.has_tls else "http"
        fields = [(":method", "POST"), (":scheme", scheme), (":path", path), (":authority", connection.authority)]
        fields += [("content-type", "application/grpc"), ("te", "trailers"), *connection.headers()]
        block = b"".join(_never_indexed(name, value) for name, value in fields)
        if len(block) > MAX_FRAME_BYTES:
            raise ValueError(f"The headers have {len(block):,} bytes: at most {MAX_FRAME_BYTES:,} are possible.")
        wishes = {_ENABLE_PUSH: 0, _INITIAL_WINDOW: WINDOW_BYTES, _MAX_FRAME: MAX_TAKEN_FRAME_BYTES}
        settings = b"".join(_SETTING.pack(*wish) for wish in wishes.items())
        return b"".join(
            (
                _PREFACE,
                _frame(_SETTINGS, 0, 0, settings),
                _frame(_WINDOW_UPDATE, 0, 0, _U32.pack(WINDOW_BYTES - _FIRST_WINDOW_BYTES)),
                _frame(_HEADERS, _END_HEADERS, _STREAM, block),
            )
        )

    def send(self, message: bytes) -> None:
        """Goes with the next `to_send`, as far as the other side has room. Nothing goes after goodbye."""
        if not self._is_finishing:
            self._waiting += b"\0" + _U32.pack(len(message)) + message

    def finish(self) -> None:
        """Nothing more is said here after what waits."""
        self._is_finishing = True

    def ping(self) -> None:
        """Whoever lives answers."""
        self._replies.append(_frame(_PING, 0, 0, bytes(8)))

    def take(self, data: bytes) -> list[bytes]:
        """The messages that are whole now, also those that came just before the end."""
        if self.ended:
            return []
        try:
            self._take_frames(self._came + data if self._came else data)
        except _Ended as ended:
            self.ended = str(ended)
        except (struct.error, IndexError):
            self.ended = "The server sent a frame that is too short."
        return self._messages()

    def to_send(self) -> bytes:
        """What the other side is to be told of what came, and what waits."""
        if self.ended or not (self._replies or self._waiting or self._owes_goodbye):
            return b""
        parts, waiting = self._replies, self._waiting
        size_bytes = min(len(waiting), self._room_bytes, self._stream_room_bytes)
        for at in range(0, size_bytes, MAX_FRAME_BYTES):
            parts.append(_frame(_DATA, 0, _STREAM, waiting[at : min(at + MAX_FRAME_BYTES, size_bytes)]))
        if size_bytes > 0:
            del waiting[:size_bytes]
            self._room_bytes -= size_bytes
            self._stream_room_bytes -= size_bytes
        if self._owes_goodbye and not waiting:
            self._has_finished = True
            parts.append(_frame(_DATA, _END_STREAM, _STREAM, b""))
        self._replies = []
        return b"".join(parts)

    @property
    def _owes_goodbye(self) -> bool:
        return self._is_finishing and not self._has_finished

    def _take_frames(self, came: bytes) -> None:
        at = 0
        while len(came) - at >= _HEAD_BYTES:
            size_bytes = int.from_bytes(came[at : at + 3])
            if size_bytes > MAX_TAKEN_FRAME_BYTES:
                raise _Ended("The server sent a frame that is too long.")
            end = at + _HEAD_BYTES + size_bytes
            if end > len(came):
                break
            stream = _U32.unpack_from(came, at + 5)[0] & _NUMBER
            self._take_frame(came[at + 3], came[at + 4], stream, came[at + _HEAD_BYTES : end])
            at = end
        self._came = came[at:]

    def _take_frame(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == _WINDOW_UPDATE:
            self._on_room(stream, _U32.unpack(content)[0])
        elif kind == _SETTINGS and not flags & _ACK:
            self._on_settings(content)
        elif kind == _PING and not flags & _ACK:
            self._replies.append(_frame(_PING, _ACK, 0, content))
        elif kind == _GOAWAY:
            self._on_goaway(*struct.unpack_from(">II", content))
        elif stream == _STREAM:
            self._take_frame_of_stream(kind, flags, content)

    def _take_frame_of_stream(self, kind: int, flags: int, content: bytes) -> None:
        if kind == _DATA:
            self._on_data(flags, content)
        elif kind in (_HEADERS, _CONTINUATION):
            self._on_headers(kind, flags, content)
        elif kind == _RST_STREAM:
            raise _Ended(f"The server broke the stream off (HTTP/2 error {_U32.unpack(content)[0]}).")

    def _on_headers(self, kind: int, flags: int, content: bytes) -> None:
        if kind == _HEADERS:
            block = _unpadded(flags, content)
            self.header_blocks.append(block[_PRIORITY_BYTES:] if flags & _PRIORITY else block)
            self._is_last_block = bool(flags & _END_STREAM)
        else:
            self.header_blocks[-1] += content
        if self._is_last_block and flags & _END_HEADERS:
            raise _Ended("The server ended the stream.")

    def _on_data(self, flags: int, content: bytes) -> None:
        self._body += _unpadded(flags, content)
        if flags & _END_STREAM:
            raise _Ended("The server ended the stream.")
        self._used_bytes += len(content)
        if self._used_bytes >= WINDOW_BYTES // 2:
            room = _U32.pack(self._used_bytes)
            self._replies += [_frame(_WINDOW_UPDATE, 0, 0, room), _frame(_WINDOW_UPDATE, 0, _STREAM, room)]
            self._used_bytes = 0

    def _on_room(self, stream: int, more_bytes: int) -> None:
        if stream:
            self._stream_room_bytes += more_bytes
        else:
            self._room_bytes += more_bytes

    def _on_settings(self, content: bytes) -> None:
        self.has_heard = True
        for name, value in _SETTING.iter_unpack(content):
            if name == _INITIAL_WINDOW:
                self._stream_room_bytes += value - self._stream_window_bytes
                self._stream_window_bytes = value
        self._replies.append(_frame(_SETTINGS, _ACK, 0, b""))

    def _on_goaway(self, last_stream: int, error_code: int) -> None:
        """What is under way goes on, also where it goes because of an error: when it has gone, the connection ends."""
        self.is_leaving, self.error_code = True, error_code
        if last_stream & _NUMBER < _STREAM:
            raise _Ended(f"The server went away (HTTP/2 error {error_code}).")

    def _messages(self) -> list[bytes]:
        body, at, found = self._body, 0, list[bytes]()
        while len(body) - at >= _PREFIX_BYTES:
            is_compressed, size_bytes = body[at], _U32.unpack_from(body, at + 1)[0]
            if is_compressed or size_bytes > MAX_MESSAGE_BYTES:
                self.ended = self.ended or "The server sent what is no message of gRPC."
                break
            end = at + _PREFIX_BYTES + size_bytes
            if end > len(body):
                break
            found.append(bytes(body[at + _PREFIX_BYTES : end]))
            at = end
        del body[:at]
        return found


def _frame(kind: int, flags: int, stream: int, content: bytes | bytearray) -> bytes:
    return b"".join((len(content).to_bytes(3), bytes((kind, flags)), _U32.pack(stream), content))


def _unpadded(flags: int, content: bytes) -> bytes:
    if not flags & _PADDED:
        return content
    if content[0] >= len(content):
        raise _Ended("The server sent more padding than content.")
    return content[1 : len(content) - content[0]]


def _never_indexed(name: str, value: str) -> bytes:
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
