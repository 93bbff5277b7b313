"""One gRPC stream in bytes: what a server may send, in whatever pieces, and what is said to it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st

from timerd.http2 import MAX_FRAME_BYTES, MAX_TAKEN_FRAME_BYTES
from timerd.sdk.connection import Connection
from timerd.sdk.errors import AccessDenied, Overloaded, TimerdError, Unavailable
from timerd.sdk.one_stream import WINDOW_BYTES, OneStream
from timerd.sdk.trailers import error_of_end

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 1, 1, 4, 8, 32
FIRST_ROOM_BYTES = 65_535
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return len(content).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + content


def grpc_message(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4) + message


def frames(raw: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Kind, flags, stream and content of each."""
    while raw:
        size = int.from_bytes(raw[:3])
        yield raw[3], raw[4], int.from_bytes(raw[5:9]), raw[9 : 9 + size]
        raw = raw[9 + size :]


def said(stream: OneStream, kind: int) -> list[bytes]:
    return [content for each, _, _, content in frames(stream.to_send()) if each == kind]


def room(more_bytes: int, stream: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, more_bytes.to_bytes(4))


def first_window(size_bytes: int) -> bytes:
    return frame(SETTINGS, 0, 0, struct.pack(">HI", 4, size_bytes))


def headers(fields: dict[str, str], flags: int) -> bytes:
    return frame(HEADERS, flags, 1, Encoder().encode(fields.items()))


# -- what goes first --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token_chars", [10, 126, 127, 128, 300, 5_000])
def test_the_opening_names_the_method_and_shows_the_token(token_chars: int) -> None:
    connection = Connection("timers.example:7400", tls=True, tls_server_name="timers", token="t" * token_chars)
    opening = OneStream().opening("/a.Service/Method", connection)
    assert opening.startswith(PREFACE)
    kinds = {kind: (flags, stream, content) for kind, flags, stream, content in frames(opening[len(PREFACE) :])}
    assert [*kinds] == [SETTINGS, WINDOW_UPDATE, HEADERS]
    flags, stream, block = kinds[HEADERS]
    assert (flags, stream) == (END_HEADERS, 1)
    decoded = Decoder().decode(block)
    assert {str(name): str(value) for name, value in decoded} == {
        ":method": "POST",
        ":scheme": "https",
        ":path": "/a.Service/Method",
        ":authority": "timers",
        "content-type": "application/grpc",
        "te": "trailers",
        "authorization": "Bearer " + "t" * token_chars,
    }
    assert not any(field.indexable for field in decoded)


def test_a_token_that_fits_no_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="16,384"):
        OneStream().opening("/a", Connection("a:1", tls=True, token="t" * MAX_FRAME_BYTES))


# -- what comes -------------------------------------------------------------------------------------------------------

OTHERS = [
    frame(PING, 0, 0, b"12345678"),
    frame(PING, ACK, 0, b"12345678"),
    frame(SETTINGS, ACK, 0),
    first_window(1 << 20),
    room(5, 0),
    frame(0xEE, 0xFF, 7, b"of a later version"),
    headers({":status": "200"}, END_HEADERS),
]


@given(
    messages=st.lists(st.binary(max_size=300), max_size=8),
    others=st.lists(st.tuples(st.integers(0, 40), st.sampled_from(OTHERS)), max_size=5),
    padding=st.integers(0, 20),
    cut=st.integers(1, 90),
    chunk=st.integers(1, 400),
)
def test_messages_come_out_whole_in_whatever_pieces_they_come(
    messages: list[bytes], others: list[tuple[int, bytes]], padding: int, cut: int, chunk: int
) -> None:
    body = b"".join(map(grpc_message, messages))
    padded = bytes((padding,)), bytes(padding)
    parts = [frame(DATA, PADDED, 1, padded[0] + body[at : at + cut] + padded[1]) for at in range(0, len(body), cut)]
    for place, other in others:
        parts.insert(place % (len(parts) + 1), other)
    raw, stream = b"".join(parts), OneStream()
    came = [message for at in range(0, len(raw), chunk) for message in stream.take(raw[at : at + chunk])]
    assert (came, stream.ended) == (messages, "")


def test_a_large_message_in_frames_of_all_sizes() -> None:
    message, stream, came = bytes(range(256)) * 20_000, OneStream(), list[bytes]()
    body = grpc_message(message)
    for at in range(0, len(body), MAX_TAKEN_FRAME_BYTES):
        came += stream.take(frame(DATA, 0, 1, body[at : at + MAX_TAKEN_FRAME_BYTES]))
    assert came == [message]


def test_pings_and_settings_are_acknowledged_once() -> None:
    stream = OneStream()
    stream.take(frame(PING, 0, 0, b"abcdefgh") + first_window(10) + frame(PING, ACK, 0, b"abcdefgh"))
    assert [*frames(stream.to_send())] == [(PING, ACK, 0, b"abcdefgh"), (SETTINGS, ACK, 0, b"")]
    assert stream.to_send() == b""


def test_the_server_gets_room_again_when_half_of_it_is_used() -> None:
    stream, chunk = OneStream(), grpc_message(bytes(MAX_TAKEN_FRAME_BYTES - 5))
    for _ in range(WINDOW_BYTES // 2 // len(chunk) - 1):
        stream.take(frame(DATA, 0, 1, chunk))
    assert stream.to_send() == b""
    stream.take(frame(DATA, 0, 1, chunk))
    half = (WINDOW_BYTES // 2).to_bytes(4)
    assert [*frames(stream.to_send())] == [(WINDOW_UPDATE, 0, 0, half), (WINDOW_UPDATE, 0, 1, half)]


# -- what goes --------------------------------------------------------------------------------------------------------


def test_no_more_goes_than_the_server_has_room_for() -> None:
    stream, message = OneStream(), bytes(range(256)) * 1_000
    stream.send(message)
    sent = b"".join(said(stream, DATA))
    assert len(sent) == FIRST_ROOM_BYTES
    stream.take(room(100_000, 1))
    # The connection has none yet.
    assert stream.to_send() == b""
    stream.take(room(1_000, 0))
    more = said(stream, DATA)
    assert sum(map(len, more)) == 1_000
    stream.take(room(1 << 20, 0) + room(1 << 20, 1))
    last = said(stream, DATA)
    assert max(map(len, last)) <= MAX_FRAME_BYTES
    assert b"".join([sent, *more, *last]) == grpc_message(message)


def test_a_window_that_shrinks_below_what_is_under_way_is_waited_out() -> None:
    stream = OneStream()
    stream.send(bytes(59_995))
    stream.to_send()
    # 60,000 bytes are under way: 50,000 more than the stream may have now.
    stream.take(first_window(10_000) + room(1 << 20, 0))
    stream.send(b"later")
    assert said(stream, DATA) == []
    stream.take(room(50_000, 1))
    assert said(stream, DATA) == []
    stream.take(room(10, 1))
    assert said(stream, DATA) == [grpc_message(b"later")]


def test_goodbye_goes_after_what_waits() -> None:
    stream = OneStream()
    stream.send(bytes(FIRST_ROOM_BYTES - 5 + 10))
    stream.finish()
    assert all(not flags & END_STREAM for _, flags, _, _ in frames(stream.to_send()))
    stream.take(room(10, 0) + room(10, 1))
    assert [(flags, len(content)) for _, flags, _, content in frames(stream.to_send())] == [(0, 10), (END_STREAM, 0)]
    # Once, and nothing after it.
    stream.finish()
    stream.send(b"late")
    assert stream.to_send() == b""


# -- how it ends ------------------------------------------------------------------------------------------------------

TRAILERS = {
    "grpc-status": "14",
    "grpc-message": "going%20away",
    "timerd-reason": "DRAINING",
    "timerd-retry-after-ms": "250",
}


def test_what_came_just_before_the_end_counts() -> None:
    stream = OneStream()
    raw = headers({":status": "200"}, END_HEADERS) + frame(DATA, 0, 1, grpc_message(b"last"))
    assert stream.take(raw + headers(TRAILERS, END_HEADERS | END_STREAM)) == [b"last"]
    assert stream.ended
    error = error_of_end(stream.header_blocks, stream.ended)
    assert isinstance(error, Unavailable)
    assert (str(error), error.reason, error.retry_after) == ("going away", "DRAINING", 0.25)


def test_trailers_may_come_in_pieces() -> None:
    block = Encoder().encode(TRAILERS.items())
    stream = OneStream()
    stream.take(frame(HEADERS, END_STREAM | PRIORITY, 1, bytes(5) + block[:7]))
    assert not stream.ended
    stream.take(frame(CONTINUATION, 0, 1, block[7:9]) + frame(CONTINUATION, END_HEADERS, 1, block[9:]))
    assert error_of_end(stream.header_blocks, stream.ended).reason == "DRAINING"


def end_with(fields: dict[str, str]) -> TimerdError:
    stream = OneStream()
    stream.take(headers(fields, END_HEADERS | END_STREAM))
    return error_of_end(stream.header_blocks, stream.ended)


def test_each_end_says_what_it_means() -> None:
    assert isinstance(
        end_with({"x-via": "caf\xe9 \ud83d".encode("utf-8", "surrogatepass").decode("latin-1"), "grpc-status": "16"}),
        AccessDenied,
    )
    assert end_with({"grpc-status": "²"}).code == "UNAVAILABLE"
    assert isinstance(end_with({":status": "200", "grpc-status": "7", "grpc-message": "no"}), AccessDenied)
    assert isinstance(end_with({"grpc-status": "8", "timerd-retry-after-ms": "x"}), Overloaded)
    assert str(end_with({"grpc-status": "13", "grpc-message": "caf%C3%A9"})) == "café"
    well = end_with({"grpc-status": "0"})
    assert (well.code, str(well)) == ("UNAVAILABLE", "The server ended the stream.")
    # A proxy that speaks no gRPC.
    assert (end_with({":status": "503"}).code, end_with({":status": "403"}).code) == (
        "UNAVAILABLE",
        "PERMISSION_DENIED",
    )
    assert "418" in str(end_with({":status": "418"}))


@pytest.mark.parametrize(
    "raw",
    [
        frame(RST_STREAM, 0, 1, (8).to_bytes(4)),
        # Our stream is none of those that will be answered.
        frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0)),
        frame(DATA, END_STREAM, 1),
        # What nobody may send.
        frame(GOAWAY, 0, 0, b"123"),
        frame(WINDOW_UPDATE, 0, 0, b"12"),
        frame(SETTINGS, 0, 0, b"12345"),
        frame(DATA, PADDED, 1, b"\5abc"),
        frame(DATA, PADDED, 1),
        frame(CONTINUATION, END_HEADERS, 1, b"x"),
        frame(DATA, 0, 1, b"\1" + bytes(4)),
        frame(DATA, 0, 1, b"\0\xff\xff\xff\xff"),
        (MAX_TAKEN_FRAME_BYTES + 1).to_bytes(3) + bytes(6),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
    ids=lambda raw: raw[:24].hex(),
)
def test_it_ends_by_what_says_so_and_by_what_cannot_be_understood(raw: bytes) -> None:
    stream = OneStream()
    assert stream.take(raw) == []
    assert stream.ended
    assert isinstance(error_of_end(stream.header_blocks, stream.ended), Unavailable)


@pytest.mark.parametrize("code", [0, 2, 11])
def test_a_server_that_goes_away_still_answers_what_is_under_way(code: int) -> None:
    stream = OneStream()
    stream.take(frame(GOAWAY, 0, 0, struct.pack(">II", 0xFFFF_FFFF, code) + b"why"))
    assert (stream.is_leaving, stream.error_code, stream.ended) == (True, code, "")
    assert stream.take(frame(DATA, 0, 1, grpc_message(b"answer"))) == [b"answer"]


def test_nothing_is_taken_nor_said_after_the_end() -> None:
    stream = OneStream()
    stream.take(frame(DATA, 0, 1, grpc_message(b"last")) + frame(RST_STREAM, 0, 1, (0).to_bytes(4)))
    stream.send(b"more")
    stream.ping()
    assert stream.take(frame(DATA, 0, 1, grpc_message(b"stale"))) == []
    assert stream.to_send() == b""


def test_what_is_said_of_other_streams_is_not_said_of_ours() -> None:
    stream = OneStream()
    for other in (frame(RST_STREAM, 0, 3, bytes(4)), frame(DATA, END_STREAM, 3, b"x"), frame(HEADERS, 5, 3, b"\xff")):
        assert stream.take(other) == []
    assert stream.ended == ""


def test_headers_that_are_no_headers_end_it_too() -> None:
    assert isinstance(error_of_end([b"\xff\xff\xff\xff\xff\xff\xff"], "The server ended the stream."), Unavailable)
