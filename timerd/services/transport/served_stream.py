"""The server's end of a connection with one gRPC stream, without I/O: bytes come in, messages go out.

It serves the SDK's own streams beside grpcio (side_door.py says why), so it knows what those need, and is strict with
whatever else comes: who breaks a rule is hung up on, and comes back by the ordinary port.

What was taken in and not yet read by the handler counts against the window, so that a handler which reads slowly holds
its caller back. What came of a message that is not whole yet does not count: else one larger than the window would
never be.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Sequence
from urllib.parse import quote

from hpack import Decoder, HPACKError

from timerd.http2 import (
    ACK,
    CONTINUATION,
    DATA,
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
    MOST_STREAMS,
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
from timerd.services.transport.decoding import MAX_WIRE_BYTES

# Grows by a quarter of it whenever so much was used.
WINDOW_BYTES = 4 << 20
# Of who does not read what it is answered: more than comes in one go.
_MOST_REPLIES = 1 << 16
# A ping says eight bytes.
_LARGEST_REPLY_BYTES = len(frame(PING, ACK, 0, bytes(8)))
# What is said in headers must fit into one frame, whatever the caller sent.
_MOST_SENTENCE_CHARS = 4_096
_PLAIN = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
Metadata = Sequence[tuple[str, str | bytes]]


class ServedStream:
    """`take` what came, then send what `to_send` gives, until it has `ended`."""

    def __init__(self) -> None:
        self._frames = Frames()
        self._inbox = Inbox(MAX_WIRE_BYTES)
        self._outbox = Outbox()
        more = U32.pack(WINDOW_BYTES - FIRST_WINDOW_BYTES)
        wishes = settings({MOST_STREAMS: 1, INITIAL_WINDOW: WINDOW_BYTES, MAX_FRAME: MAX_TAKEN_FRAME_BYTES})
        self._replies = [wishes, frame(WINDOW_UPDATE, 0, 0, more)]
        self._preface = b""
        self._block = b""
        self._is_last_block = False
        # Of the request, once they have all come.
        self.fields: dict[str, str] = {}
        # The caller has said all that it had to say.
        self.is_finished = False
        # Of what came, in bytes: all, what the handler has read of it, and for what room was given again.
        self._came = self._read = self._given = 0
        self._end = b""
        self._has_said_end = False
        # A sentence, once nothing more can be said on this connection.
        self.ended = ""

    def take(self, data: bytes) -> list[bytes]:
        """The messages that are whole now."""
        if self.ended:
            return []
        if (message := self._lone(data)) is not None:
            return [message]
        try:
            for each in self._frames.take(self._after_preface(data)):
                self._take_frame(*each)
        except Ended as ended:
            self.ended = str(ended)
        except (struct.error, IndexError, UnicodeDecodeError, HPACKError):
            self.ended = "There came a frame that cannot be read."
        messages = self._inbox.whole()
        if self._inbox.is_spoilt:
            self.ended = self.ended or "There came what is no message of gRPC."
        self._give_room()
        return messages

    def _lone(self, data: bytes) -> bytes | None:
        usual = self.fields and not self.is_finished and self._frames.is_empty and not len(self._inbox)
        if not usual or self._came - self._given > WINDOW_BYTES // 2:
            return None
        message = lone_message(data) if len(data) <= MAX_FRAME_BYTES else None
        if message is not None:
            self._came += len(message) + MESSAGE_PREFIX_BYTES
        return message

    def was_read(self, message_bytes: int) -> None:
        """The handler has such a message now."""
        self._read += message_bytes + MESSAGE_PREFIX_BYTES
        self._give_room()

    def accept(self, metadata: Metadata = ()) -> None:
        self._replies.append(frame(HEADERS, END_HEADERS, STREAM, _block([*_ACCEPTED, *metadata])))

    def send(self, message: bytes) -> None:
        """Goes with the next `to_send`, as far as the other side has room."""
        self._outbox.add(message)

    def finish(self, code: int, sentence: str, metadata: Metadata = ()) -> None:
        """Nothing more is said here after what waits. Once."""
        said = quote(sentence[:_MOST_SENTENCE_CHARS], safe=_PLAIN)
        fields = [("grpc-status", str(code)), ("grpc-message", said)]
        block = _block([*fields, *metadata])
        # What is too long to say is left out: code and sentence are what everybody reads.
        fits = len(block) <= MAX_FRAME_BYTES
        self._end = frame(HEADERS, END_HEADERS | END_STREAM, STREAM, block if fits else _block(fields))

    def ping(self) -> None:
        """Whoever lives answers."""
        self._replies.append(frame(PING, 0, 0, bytes(8)))

    def go_away(self) -> None:
        """No further stream is taken; this one goes on."""
        self._replies.append(frame(GOAWAY, 0, 0, U32.pack(STREAM) + U32.pack(0)))

    @property
    def is_full(self) -> bool:
        """The other side has no room for what waits."""
        return self._outbox.is_full

    def to_send(self) -> bytes:
        if self.ended:
            return b""
        parts, self._replies = self._replies, []
        parts += self._outbox.frames()
        if self._end and not (self._has_said_end or self._outbox.is_full):
            self._has_said_end = True
            parts.append(self._end)
        return b"".join(parts)

    def _after_preface(self, data: bytes) -> bytes:
        missing = len(PREFACE) - len(self._preface)
        if not missing:
            return data
        self._preface += data[:missing]
        if not PREFACE.startswith(self._preface):
            raise Ended("What came is not HTTP/2.")
        return data[missing:]

    def _take_frame(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == DATA:
            self._on_data(flags, stream, content)
        elif kind == WINDOW_UPDATE:
            self._outbox.on_room(stream, U32.unpack(content)[0])
        elif kind == SETTINGS and not flags & ACK:
            self._outbox.on_settings(content)
            self._reply(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self._reply(frame(PING, ACK, 0, content))
        elif kind in (HEADERS, CONTINUATION):
            self._on_headers(kind, flags, stream, content)
        elif kind == RST_STREAM:
            raise Ended("The caller broke the stream off.")

    def _reply(self, said: bytes) -> None:
        if len(said) > _LARGEST_REPLY_BYTES:
            raise Ended("There came a frame that cannot be read.")
        if len(self._replies) >= _MOST_REPLIES:
            raise Ended("There came more questions than answers were read.")
        self._replies.append(said)

    def _on_data(self, flags: int, stream: int, content: bytes) -> None:
        if stream != STREAM or self.is_finished or not self.fields:
            raise Ended("There came what belongs to no stream.")
        body = unpadded(flags, content)
        self._inbox.add(body)
        self._came += len(content)
        # Padding is read as soon as it comes.
        self._read += len(content) - len(body)
        if self._came - self._given > WINDOW_BYTES:
            raise Ended("There came more than there was room for.")
        self.is_finished = bool(flags & END_STREAM)

    def _on_headers(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if stream != STREAM or self.fields:
            raise Ended("A connection has one stream here.")
        if kind == HEADERS:
            block = unpadded(flags, content)
            self._block = block[PRIORITY_BYTES:] if flags & PRIORITY else block
            self._is_last_block = bool(flags & END_STREAM)
        else:
            self._block += content
        if len(self._block) > MAX_FRAME_BYTES:
            raise Ended("The headers are too long.")
        if flags & END_HEADERS:
            fields = Decoder().decode(self._block, raw=True)
            self.fields = {bytes(name).decode(): bytes(value).decode() for name, value, *_ in fields}
            self.is_finished = self._is_last_block

    def _give_room(self) -> None:
        more_bytes = self._read + len(self._inbox) - self._given
        if more_bytes >= WINDOW_BYTES // 4:
            self._given += more_bytes
            self._replies += room_for(more_bytes)


_ACCEPTED: Metadata = ((":status", "200"), ("content-type", "application/grpc"))


def _block(fields: Metadata) -> bytes:
    return b"".join(header(name, _written(value)) for name, value in fields)


def _written(value: str | bytes) -> str:
    """Bytes stand in headers as base64 (gRPC over HTTP/2, Custom-Metadata)."""
    return value if isinstance(value, str) else b64encode(value).decode().rstrip("=")
