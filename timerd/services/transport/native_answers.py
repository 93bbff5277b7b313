"""What the native door writes: the answers of one turn of the event loop together, in the form of the wire."""

from __future__ import annotations

import asyncio
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias
from urllib.parse import quote_from_bytes

from google.protobuf.message import Message

from timerd.services.transport.native_wire import NativeFailure, NativeReply, NativeWire
from timerd.services.transport.status import trailers_of
from timerd.v1.task_pb2 import Problem

# Printable ASCII without the sign itself, as the specification of gRPC has it.
_AS_THEY_ARE = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
_BINARY = "-bin"
Trailers: TypeAlias = Iterable[tuple[str, str | bytes]]


class Answers:
    """Of one door."""

    def __init__(self, wire: NativeWire) -> None:
        self._wire = wire
        self._replies: list[NativeReply] = []
        self._failures: list[NativeFailure] = []
        # Who wants to know whether the reply has reached its caller.
        self._ends: dict[int, Callable[[bool], None]] = {}

    def put(self, number: int, outcome: Message | Problem, end: Callable[[bool], None] | None = None) -> None:
        """`end` hears whether somebody was there to take it."""
        if isinstance(outcome, Problem):
            self.fail(number, outcome.code, outcome.message, trailers_of(outcome))
            return
        if end is not None:
            self._ends[number] = end
        self._write_soon()
        self._replies.append((number, outcome.SerializeToString()))

    def fail(self, number: int, code: int, message: str, trailers: Trailers = ()) -> None:
        self._write_soon()
        shown = quote_from_bytes(message.encode(), safe=_AS_THEY_ARE).encode()
        written = [(name, _value(name, value)) for name, value in trailers]
        self._failures.append(NativeFailure(number, code, shown, written))

    def _write_soon(self) -> None:
        """Behind all that is answered in this turn."""
        if not self._replies and not self._failures:
            asyncio.get_running_loop().call_soon(self.write)

    def write(self) -> None:
        if not self._replies and not self._failures:
            return
        replies, failures, ends = self._replies, self._failures, self._ends
        self._replies, self._failures, self._ends = [], [], {}
        lost = self._wire.answer(replies, failures)
        if ends:
            _tell(ends, set(lost))


def _tell(ends: Mapping[int, Callable[[bool], None]], lost: set[int]) -> None:
    for number, end in ends.items():
        end(number not in lost)


def _value(name: str, value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return b2a_base64(raw, newline=False).rstrip(b"=") if name.endswith(_BINARY) else raw
