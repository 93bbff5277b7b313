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
from collections.abc import Sequence

from timerd.http2 import (
    ACK,
    CONTINUATION,
    DATA,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW_BYTES,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW,
    MAX_FRAME,
    MAX_FRAME_BYTES,
    MAX_TAKEN_FRAME_BYTES,
    MESSAGE_PREFIX_BYTES,
    NUMBER,
    PING,
    PREFACE,
    PRIORITY,
    PRIORITY_BYTES,
    RST_STREAM,
    SETTINGS,
    STREAM,
    U32,
    WINDOW_UPDATE,
    Ended,
    Frames,
    Inbox,
    Outbox,
    frame,
    header,
    lone_message,
    room_for,
    settings,
    unpadded,
)
from timerd.sdk.connection import Connection

# Grows by half of it whenever half of it was used.
WINDOW_BYTES = 16 << 20
MAX_MESSAGE_BYTES = 32 << 20


class OneStream:
    """`take` what came, then send what `to_send` gives, until it has `ended`."""

    def __init__(self) -> None:
        self._frames = Frames()
        self._inbox = Inbox(MAX_MESSAGE_BYTES)
        self._outbox = Outbox()
        self._replies: list[bytes] = []
        self._is_finishing = self._has_finished = False
        # Of the answer and of its end, as they came.
        self.header_blocks: list[bytes] = []
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

    def opening(self, path: str, connection: Connection, more: Sequence[tuple[str, str]] = ()) -> bytes:
        """What goes first; `more`: further headers. Raises ValueError where the headers are too long for one frame,
        OSError where the file with the token cannot be read."""
        scheme = "https" if connection.has_tls else "http"
        fields = [(":method", "POST"), (":scheme", scheme), (":path", path), (":authority", connection.authority)]
        fields += [("content-type", "application/grpc"), ("te", "trailers"), *more, *connection.headers()]
        block = b"".join(header(name, value) for name, value in fields)
        if len(block) > MAX_FRAME_BYTES:
            raise ValueError(f"The headers have {len(block):,} bytes: at most {MAX_FRAME_BYTES:,} are possible.")
        return b"".join(
            (
                PREFACE,
                settings({ENABLE_PUSH: 0, INITIAL_WINDOW: WINDOW_BYTES, MAX_FRAME: MAX_TAKEN_FRAME_BYTES}),
                frame(WINDOW_UPDATE, 0, 0, U32.pack(WINDOW_BYTES - FIRST_WINDOW_BYTES)),
                frame(HEADERS, END_HEADERS, STREAM, block),
            )
        )

    def send(self, message: bytes) -> None:
        """Goes with the next `to_send`, as far as the other side has room. Nothing goes after goodbye."""
        if not self._is_finishing:
            self._outbox.add(message)

    def finish(self) -> None:
        """Nothing more is said here after what waits."""
        self._is_finishing = True

    def ping(self) -> None:
        """Whoever lives answers."""
        self._replies.append(frame(PING, 0, 0, bytes(8)))

    def take(self, data: bytes) -> list[bytes]:
        """The messages that are whole now, also those that came just before the end."""
        if self.ended:
            return []
        if (message := self._lone(data)) is not None:
            return [message]
        try:
            for each in self._frames.take(data):
                self._take_frame(*each)
        except Ended as ended:
            self.ended = str(ended)
        except (struct.error, IndexError):
            self.ended = "The server sent a frame that is too short."
        messages = self._inbox.whole()
        if self._inbox.is_spoilt:
            self.ended = self.ended or "The server sent what is no message of gRPC."
        return messages

    def _lone(self, data: bytes) -> bytes | None:
        if not self._frames.is_empty or len(self._inbox) or len(data) > MAX_FRAME_BYTES:
            return None
        message = lone_message(data)
        if message is not None:
            self._on_used(len(message) + MESSAGE_PREFIX_BYTES)
        return message

    def to_send(self) -> bytes:
        """What the other side is to be told of what came, and what waits."""
        if self.ended or not (self._replies or self._owes_goodbye or not self._outbox.is_empty):
            return b""
        parts = self._replies
        parts += self._outbox.frames()
        if self._owes_goodbye and not self._outbox.is_full:
            self._has_finished = True
            parts.append(frame(DATA, END_STREAM, STREAM, b""))
        self._replies = []
        return b"".join(parts)

    @property
    def _owes_goodbye(self) -> bool:
        return self._is_finishing and not self._has_finished

    def _take_frame(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == WINDOW_UPDATE:
            self._outbox.on_room(stream, U32.unpack(content)[0])
        elif kind == SETTINGS and not flags & ACK:
            self._on_settings(content)
        elif kind == PING and not flags & ACK:
            self._replies.append(frame(PING, ACK, 0, content))
        elif kind == GOAWAY:
            self._on_goaway(*struct.unpack_from(">II", content))
        elif stream == STREAM:
            self._take_frame_of_stream(kind, flags, content)

    def _take_frame_of_stream(self, kind: int, flags: int, content: bytes) -> None:
        if kind == DATA:
            self._on_data(flags, content)
        elif kind in (HEADERS, CONTINUATION):
            self._on_headers(kind, flags, content)
        elif kind == RST_STREAM:
            raise Ended(f"The server broke the stream off (HTTP/2 error {U32.unpack(content)[0]}).")

    def _on_headers(self, kind: int, flags: int, content: bytes) -> None:
        if kind == HEADERS:
            block = unpadded(flags, content)
            self.header_blocks.append(block[PRIORITY_BYTES:] if flags & PRIORITY else block)
            self._is_last_block = bool(flags & END_STREAM)
        else:
            self.header_blocks[-1] += content
        if self._is_last_block and flags & END_HEADERS:
            raise Ended("The server ended the stream.")

    def _on_data(self, flags: int, content: bytes) -> None:
        self._inbox.add(unpadded(flags, content))
        if flags & END_STREAM:
            raise Ended("The server ended the stream.")
        self._on_used(len(content))

    def _on_used(self, size_bytes: int) -> None:
        self._used_bytes += size_bytes
        if self._used_bytes >= WINDOW_BYTES // 2:
            self._replies += room_for(self._used_bytes)
            self._used_bytes = 0

    def _on_settings(self, content: bytes) -> None:
        self.has_heard = True
        self._outbox.on_settings(content)
        self._replies.append(frame(SETTINGS, ACK, 0, b""))

    def _on_goaway(self, last_stream: int, error_code: int) -> None:
        """What is under way goes on, also where it goes because of an error: when it has gone, the connection ends."""
        self.is_leaving, self.error_code = True, error_code
        if last_stream & NUMBER < STREAM:
            raise Ended(f"The server went away (HTTP/2 error {error_code}).")
