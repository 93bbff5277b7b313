"""Answers that a receiver should not give: drawn, sent byte for byte, and each with what the docs say becomes of it.

What is said of an answer follows from how it was composed, and shares nothing with timerd or its HTTP client.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

PAUSE_S = 0.01
# What is sent into a connection that is about to be closed is lost, so it is said.
KEPT = b"HTTP/1.1 %d Whatever\r\n"
HEAD = KEPT + b"Connection: close\r\n"
# Bytes that begin no answer of HTTP/1.
STRANGERS = (
    *(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0" * 64, b"\r\n" * 8, b"{}"),
    *(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"HTTP\r\n\r\n",
    ),
    *(b"HTTP/1.1 abc OK\r\n\r\n", b"HTTP/1.1 2e2 OK\r\n\r\n", b"HTTP/1.1 -200 OK\r\n\r\n", b"HTTP/1.1\r\n\r\n"),
    *(b"HTTP/1.1 000 No\r\n\r\n", b"HTTP/1.1 99999 No\r\nContent-Length: 0\r\n\r\n", b"HTTP/x.y 200 OK\r\n\r\n"),
)
# Of a head that cannot be told; by another client it may be an answer.
HEADERS = (
    *(b"no colon at all", b": no name", b"Na me: x", b"A: \0", b"A: \xff\xfe", b" folded", b"Content-Length: -1"),
    *(b"Content-Length: 1e3", b"Content-Length: 99999999999999999999999", b"Content-Length: 3\r\nContent-Length: 4"),
    *(
        b"Transfer-Encoding: chunked\r\nContent-Length: 4",
        b"Transfer-Encoding: gzip, nonsense",
        b"A: " + b"x" * 100_000,
    ),
    *(b"\r\n".join(b"A%d: x" % n for n in range(2_000)), b"Set-Cookie: " + b"a" * 9_000, b"Connection: upgrade"),
    *(b"Content-Encoding: gzip", b"Content-Type: \xf0\x9f\x8d\xb5; charset=nonsense", b"Upgrade: h2c", b"Trailer: A"),
)
CHUNKS = (
    *(
        b"zz\r\nabc\r\n",
        b"-1\r\nabc\r\n",
        b"FFFFFFFFFFFFFFFFFF\r\nabc\r\n",
        b"3\r\nabcdef\r\n0\r\n\r\n",
        b"3\nabc\n0\n\n",
    ),
    *(b"3;" + b"x" * 50_000 + b"\r\nabc\r\n0\r\n\r\n", b"\r\n\r\n", b"3\r\nab", b"0\r\nno trailer\r\n\r\n", b""),
)
# Nothing that says when: the answer counts as one without.
NO_TIMES = (
    *(b"", b"soon", b"-1", b"1.5", b"1e9", b"0x10", b"+3", b"1, 2", b"\xd9\xa3", b"Mon", b"32 Jan", b"x" * 5_000),
    *(b"Fri, 99 Foo 2026 25:61:61 GMT", b"Mon, 01 Jan 99999999999999999999 00:00:00 GMT", b"1 Jan 2026 00:00:00 +9999"),
)
# Something that does, short enough to wait for.
TIMES = (b"0", b"1", b" 1 ", b"000", b"Thu, 01 Jan 1970 00:00:00 GMT", b"Mon, 01 Jan 0001 00:00:00 GMT")
# And far too long.
FAR_TIMES = (b"9" * 4_000, b"86401", b"Fri, 31 Dec 9999 23:59:59 GMT", b"Fri, 31 Dec 9999 23:59:59 -2300")
LOCATIONS = (
    b"",
    b"/",
    b"//",
    b"http://169.254.169.254/latest",
    b"http://[::1",
    b"javascript:1",
    b"\xff",
    b"x" * 20_000,
)


class Ends(Enum):
    """What becomes of an attempt. EITHER: an answer in which only its end is wrong, say; the docs leave it open."""

    ACKED = "acked"
    FAILED = "failed"
    THROTTLED = "throttled"
    EITHER = "either"


@dataclass
class Nonsense:
    """`says`: for a finding. `then`: what the receiver does after the bytes: close, reset (without a word), keep (waits
    for the next request), stall (says no more), flood (sends a body without an end)."""

    says: str
    ends: Ends
    sent: bytes = b""
    then: str = "close"
    pieces: int = 1


def drawn(seed: int, *, waits_long: bool = False) -> Nonsense:
    """The same for the same seed. `waits_long`: answers that put a target off for a day are among them."""
    chance = random.Random(seed)
    kinds = [*KINDS, far] if waits_long else KINDS
    return chance.choice(kinds)(chance)


def whole(status: int, *headers: bytes, body: bytes = b"", head: bytes = HEAD) -> bytes:
    lines = b"".join(header + b"\r\n" for header in (*headers, b"Content-Length: %d" % len(body)))
    return head % status + lines + b"\r\n" + body


def body_of(chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice((0, 1, 100, 4_095, 4_096, 4_097, 70_000)))


def status_of(chance: random.Random) -> tuple[int, Ends]:
    """No 410: a target that is gone is sent nothing more."""
    if chance.random() < 0.3:
        return chance.choice((200, 201, 202, 206, 226, 299)), Ends.ACKED
    return chance.choice((300, 302, 400, 401, 404, 408, 425, 429, 451, 499, 500, 502, 503, 599, 600, 999)), Ends.FAILED


def plain(chance: random.Random) -> Nonsense:
    """Well formed, of any status and length, in a few pieces."""
    status, ends = status_of(chance)
    then, head = chance.choice((("close", HEAD), ("keep", KEPT)))
    return Nonsense(f"{status}", ends, whole(status, body=body_of(chance), head=head), then, chance.choice((1, 2, 7)))


def cut(chance: random.Random) -> Nonsense:
    """Half of a head."""
    status, _ = status_of(chance)
    head, _, _ = whole(status, b"A: b").partition(b"\r\n\r\n")
    end = chance.randrange(len(head))
    return Nonsense(
        f"head of {status} cut at {end}", Ends.FAILED, head[:end], chance.choice(("close", "stall", "reset"))
    )


def cut_body(chance: random.Random) -> Nonsense:
    """It lacks its end; one that failed anyway has failed."""
    status, ends = status_of(chance)
    sent = whole(status, body=b"x" * 2_000)[: -chance.randrange(1, 2_000)]
    ends = Ends.EITHER if ends is Ends.ACKED else Ends.FAILED
    return Nonsense(f"body of {status} cut", ends, sent, chance.choice(("close", "stall", "reset")))


def stranger(chance: random.Random) -> Nonsense:
    sent = chance.choice((*STRANGERS, chance.randbytes(chance.randrange(1, 9_000))))
    return Nonsense(f"no HTTP: {sent[:40]!r}", Ends.FAILED, sent, chance.choice(("close", "stall", "reset")))


def odd_header(chance: random.Random) -> Nonsense:
    status, ends = status_of(chance)
    header = chance.choice(HEADERS)
    sent = HEAD % status + header + b"\r\n\r\nabcd"
    ends = Ends.EITHER if ends is Ends.ACKED else Ends.FAILED
    return Nonsense(f"{status} with {header[:40]!r}", ends, sent, chance.choice(("close", "stall")))


def odd_chunks(chance: random.Random) -> Nonsense:
    status, ends = status_of(chance)
    chunks = b"5\r\nhello\r\n" * chance.randrange(3) + chance.choice(CHUNKS)
    sent = HEAD % status + b"Transfer-Encoding: chunked\r\n\r\n" + chunks
    ends = Ends.EITHER if ends is Ends.ACKED else Ends.FAILED
    return Nonsense(f"{status} in chunks {chunks[-40:]!r}", ends, sent, chance.choice(("close", "stall")))


def endless(chance: random.Random) -> Nonsense:
    """What comes is read to a bound, and no further."""
    status, ends = status_of(chance)
    length = chance.choice((b"Content-Length: 1000000000000", b"Transfer-Encoding: chunked", b"A: to the end"))
    return Nonsense(f"endless {status}, {length!r}", ends, HEAD % status + length + b"\r\n\r\n", "flood")


def slow(chance: random.Random) -> Nonsense:
    """Byte by byte; the head alone takes longer than there is time."""
    status, _ = status_of(chance)
    return Nonsense(f"slow {status}", Ends.FAILED, whole(status, b"A: " + b"b" * 5_000), "stall", 10_000)


def throttling(chance: random.Random) -> Nonsense:
    status, header = chance.choice((429, 503)), chance.choice(TIMES)
    return Nonsense(f"{status} after {header!r}", Ends.THROTTLED, whole(status, b"Retry-After: " + header))


def far(chance: random.Random) -> Nonsense:
    status, header = chance.choice((429, 503)), chance.choice(FAR_TIMES)
    return Nonsense(f"{status} after {header[:30]!r}", Ends.THROTTLED, whole(status, b"Retry-After: " + header))


def odd_time(chance: random.Random) -> Nonsense:
    status, header = chance.choice((400, 404, 429, 500, 503)), chance.choice(NO_TIMES)
    return Nonsense(f"{status} after {header[:60]!r}", Ends.FAILED, whole(status, b"Retry-After: " + header))


def redirect(chance: random.Random) -> Nonsense:
    status, where = chance.choice((300, 301, 302, 303, 305, 307, 308)), chance.choice(LOCATIONS)
    ends = Ends.FAILED
    return Nonsense(f"{status} to {where[:40]!r}", ends, whole(status, b"Location: " + where), "close")


def informed(chance: random.Random) -> Nonsense:
    """1xx before the answer, or for ever; 101 is the last word, and none that was asked for."""
    interim = chance.choice((b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"))
    status, ends = status_of(chance)
    times = chance.choice((1, 3, 500))
    if chance.random() < 0.3:
        return Nonsense("1xx and no more", Ends.FAILED, interim * times, chance.choice(("close", "stall")))
    if chance.random() < 0.2:
        return Nonsense(
            "101", Ends.FAILED, b"HTTP/1.1 101 Go\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n\0\0\0", "close"
        )
    return Nonsense(f"{times} times 1xx, then {status}", ends, interim * times + whole(status))


def silent(chance: random.Random) -> Nonsense:
    return Nonsense("nothing", Ends.FAILED, b"", chance.choice(("close", "stall", "reset")))


def hasty(chance: random.Random) -> Nonsense:
    """Two answers to one request."""
    status, ends = status_of(chance)
    other, _ = status_of(chance)
    ends = Ends.EITHER if ends is Ends.ACKED else ends
    return Nonsense(f"{status} and {other}", ends, whole(status, body=b"x") + whole(other, body=b"y"), "close")


KINDS: list[Callable[[random.Random], Nonsense]] = [
    *(plain, cut, cut_body, stranger, odd_header, odd_chunks, endless, slow, throttling, odd_time, redirect, informed),
    *(silent, hasty),
]


async def say(nonsense: Nonsense, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """To somebody who has asked. He may hang up at any time."""
    step = max(1, -(-len(nonsense.sent) // nonsense.pieces))
    for begin in range(0, len(nonsense.sent), step):
        writer.write(nonsense.sent[begin : begin + step])
        await writer.drain()
        if nonsense.pieces > 1:
            await asyncio.sleep(PAUSE_S)
    while nonsense.then == "flood":
        writer.write(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
        await writer.drain()
    if nonsense.then == "stall":
        await reader.read()
    if nonsense.then == "reset":
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
