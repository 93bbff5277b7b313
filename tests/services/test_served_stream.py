"""Both ends of one stream in bytes: what the one says the other hears, in whatever pieces it comes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from timerd.http2 import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW,
    MAX_FRAME,
    MAX_FRAME_BYTES,
    PADDED,
    PING,
    PREFACE,
    RST_STREAM,
    WINDOW_UPDATE,
    Frames,
    frame,
    header,
    settings,
)
from timerd.sdk.connection import Connection
from timerd.sdk.errors import Overloaded, Unavailable
from timerd.sdk.one_stream import OneStream
from timerd.sdk.trailers import error_of_end, fields_of
from timerd.services.transport.served_stream import WINDOW_BYTES, ServedStream

PATH = "/a.Service/Method"
HERE = Connection("127.0.0.1:7400")


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    """Cut by these sizes, over and over."""
    found, at, turn = [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        found.append(data[at : at + size])
        at, turn = at + size, turn + 1
    return found


def opened() -> tuple[OneStream, ServedStream]:
    caller, server = OneStream(), ServedStream()
    server.take(caller.opening(PATH, HERE))
    server.accept()
    caller.take(server.to_send())
    server.take(caller.to_send())
    return caller, server


def grpc_message(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4) + message


LENGTHS = st.lists(st.integers(0, 200) | st.integers(1, 300_000), max_size=12)
SIZES = st.lists(st.integers(1, 100_000), min_size=1, max_size=4)


def messages(lengths: list[int]) -> list[bytes]:
    return [bytes((number,)) * length for number, length in enumerate(lengths)]


@examples(deadline=None)
@given(LENGTHS, SIZES)
def test_what_a_caller_says_is_heard_in_whatever_pieces_it_comes(lengths: list[int], sizes: list[int]) -> None:
    caller, server, said = OneStream(), ServedStream(), messages(lengths)
    heard: list[bytes] = []
    for message in said:
        caller.send(message)
    caller.finish()
    for _ in range(4):
        for piece in pieces(caller.to_send() if heard or server.fields else caller.opening(PATH, HERE), sizes):
            for message in server.take(piece):
                heard.append(message)
                server.was_read(len(message))
        caller.take(server.to_send())
    while not server.is_finished:
        for message in server.take(caller.to_send()):
            heard.append(message)
            server.was_read(len(message))
        caller.take(server.to_send())
        assert not server.ended
    assert heard == said


@examples(deadline=None)
@given(LENGTHS, SIZES)
def test_what_the_server_says_is_heard_in_whatever_pieces_it_comes(lengths: list[int], sizes: list[int]) -> None:
    (caller, server), said = opened(), messages(lengths)
    for message in said:
        server.send(message)
    server.finish(0, "")
    heard: list[bytes] = []
    while not caller.ended:
        for piece in pieces(server.to_send(), sizes):
            heard += caller.take(piece)
        server.take(caller.to_send())
    assert heard == said


def test_the_request_is_known_by_its_headers() -> None:
    server = ServedStream()
    server.take(OneStream().opening(PATH, HERE, (("timerd-side-door", "0123"),)))
    assert server.fields[":path"] == PATH
    assert server.fields["timerd-side-door"] == "0123"


def test_a_caller_is_held_back_while_nobody_reads() -> None:
    """It may have a window of unread messages; when they are read it may go on."""
    caller, server = opened()
    message = bytes(1 << 20)
    for _ in range(8):
        caller.send(message)
    heard = []
    for _ in range(20):
        heard += server.take(caller.to_send())
        caller.take(server.to_send())
    assert len(heard) == WINDOW_BYTES // len(message) - 1
    read = 0
    while read < 8:
        server.was_read(len(message))
        read += 1
        caller.take(server.to_send())
        heard += server.take(caller.to_send())
    assert heard == [message] * 8


def test_a_message_that_is_larger_than_the_window_comes_whole() -> None:
    caller, server = opened()
    message = bytes(3 * WINDOW_BYTES)
    caller.send(message)
    heard: list[bytes] = []
    for _ in range(50):
        heard += server.take(caller.to_send())
        caller.take(server.to_send())
    assert heard == [message]


def test_no_frame_is_larger_than_the_other_side_allows() -> None:
    server = ServedStream()
    server.take(PREFACE + settings({INITIAL_WINDOW: 1 << 24}) + frame(WINDOW_UPDATE, 0, 0, (1 << 24).to_bytes(4)))
    server.send(bytes(100_000))
    server.take(settings({MAX_FRAME: 50_000}))
    server.send(bytes(100_000))
    data = [content for kind, _, _, content in Frames().take(server.to_send()) if kind == DATA]
    assert max(map(len, data)) == 50_000
    assert b"".join(data) == grpc_message(bytes(100_000)) * 2


def test_a_message_waits_as_long_as_there_is_no_room() -> None:
    server = ServedStream()
    server.take(PREFACE + settings({INITIAL_WINDOW: 10}))
    server.send(b"x" * 20)
    sent = [content for kind, _, _, content in Frames().take(server.to_send()) if kind == DATA]
    assert (b"".join(sent), server.is_full) == (grpc_message(b"x" * 20)[:10], True)
    server.take(frame(WINDOW_UPDATE, 0, 1, (100).to_bytes(4)))
    sent += [content for kind, _, _, content in Frames().take(server.to_send()) if kind == DATA]
    assert (b"".join(sent), server.is_full) == (grpc_message(b"x" * 20), False)


def test_the_end_comes_after_what_waits_and_says_why() -> None:
    caller, server = opened()
    server.send(b"last")
    server.finish(8, "Zu voll: 100 % - später", (("timerd-reason", "FULL"), ("timerd-retry-after-ms", "20")))
    assert caller.take(server.to_send()) == [b"last"]
    error = error_of_end(caller.header_blocks, caller.ended)
    assert isinstance(error, Overloaded)
    assert (str(error), error.reason) == ("Zu voll: 100 % - später", "FULL")
    assert server.to_send() == b""


def test_details_that_do_not_fit_are_left_out() -> None:
    caller, server = opened()
    server.finish(14, "x" * 10_000, (("grpc-status-details-bin", bytes(20_000)),))
    caller.take(server.to_send())
    assert isinstance(error_of_end(caller.header_blocks, caller.ended), Unavailable)
    assert "grpc-status-details-bin" not in fields_of(caller.header_blocks)


def test_headers_in_two_frames_are_one() -> None:
    server = ServedStream()
    block = b"".join(header(*field) for field in ((":method", "POST"), (":path", PATH)))
    server.take(PREFACE + settings({}) + frame(HEADERS, 0, 1, block[:7]))
    assert not server.fields
    server.take(frame(CONTINUATION, END_HEADERS, 1, block[7:]))
    assert server.fields == {":method": "POST", ":path": PATH}


def test_padding_is_no_part_of_a_message_and_counts_as_read() -> None:
    _, server = opened()
    padded = bytes((3,)) + grpc_message(b"hello") + bytes(3)
    assert server.take(frame(DATA, PADDED, 1, padded)) == [b"hello"]
    assert not server.ended


BLOCK = header(":path", PATH)
OPENED = PREFACE + settings({}) + frame(HEADERS, END_HEADERS, 1, BLOCK)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"GET / HTTP/1.1\r\n", "not HTTP/2"),
        (PREFACE + frame(DATA, 0, 1, b""), "belongs to no stream"),
        (OPENED + frame(HEADERS, END_HEADERS, 3, BLOCK), "one stream"),
        (OPENED + frame(DATA, END_STREAM, 1, b"") + frame(DATA, 0, 1, b""), "belongs to no stream"),
        (OPENED + frame(DATA, 0, 1, b"\1" + bytes(4)), "no message of gRPC"),
        (OPENED + frame(DATA, 0, 1, b"\0\xff\xff\xff\xff"), "no message of gRPC"),
        (OPENED + frame(RST_STREAM, 0, 1, bytes(4)), "broke the stream off"),
        (PREFACE + frame(HEADERS, END_HEADERS, 1, b"\xff" * 40), "cannot be read"),
        (PREFACE + frame(HEADERS, 0, 1, bytes(MAX_FRAME_BYTES)) + frame(CONTINUATION, 0, 1, b"x"), "too long"),
        (PREFACE + frame(WINDOW_UPDATE, 0, 0, b"\0"), "cannot be read"),
        (OPENED + frame(PING, 0, 0, bytes(8)) * 70_000, "more questions than answers"),
        (OPENED + frame(PING, 0, 0, bytes(9)), "cannot be read"),
        (OPENED + settings({}) * 70_000, "more questions than answers"),
        (PREFACE + struct.pack(">HBBBI", 0xFFFF, 0xFF, 0, 0, 1), "too long"),
    ],
)
def test_who_breaks_a_rule_is_told_nothing_more(raw: bytes, says: str) -> None:
    server = ServedStream()
    server.take(raw)
    assert says in server.ended
    assert server.to_send() == b""


def test_more_than_there_was_room_for_ends_it() -> None:
    _, server = opened()
    message = grpc_message(bytes(MAX_FRAME_BYTES - 5))
    for _ in range(WINDOW_BYTES // MAX_FRAME_BYTES + 1):
        server.take(frame(DATA, 0, 1, message))
    assert "more than there was room for" in server.ended


@given(st.binary(max_size=300), st.booleans())
def test_nothing_that_comes_raises(raw: bytes, is_opened: bool) -> None:
    server = ServedStream()
    server.take(OPENED if is_opened else PREFACE)
    server.take(raw)
    assert not (server.to_send() and server.ended)
