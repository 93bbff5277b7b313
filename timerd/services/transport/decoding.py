"""Bytes of the wire -> messages, without an exception on the way: a message that cannot be read is answered with a
sentence like any other mistake, and never ends a stream. The size comes along, for the budgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import DecodeError, Message

from timerd.config import MIB
from timerd.model.errors import Invalid

MAX_MESSAGE_BYTES = 16 * MIB
# What gRPC itself takes: above our limit, so that the answer to what is a little too large is ours.
MAX_WIRE_BYTES = 2 * MAX_MESSAGE_BYTES
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Received(Generic[M]):
    """`parsed` None: not readable."""

    parsed: M | None
    size_bytes: int
    name: str

    @property
    def message(self) -> M:
        if self.size_bytes > MAX_MESSAGE_BYTES:
            raise Invalid(
                f"The message has {self.size_bytes:,} bytes: at most {MAX_MESSAGE_BYTES:,} are allowed, split it into "
                "several messages.",
                "",
                "MESSAGE_TOO_LARGE",
            )
        if self.parsed is None:
            raise malformed(self.name)
        return self.parsed


def malformed(name: str) -> Invalid:
    return Invalid(
        f"The bytes received are no valid {name}: build the message from its .proto file (texts must be UTF-8).",
        "",
        "MALFORMED",
    )


def decoder(kind: type[M]) -> Callable[[bytes], Received[M]]:
    parse, name = kind.FromString, kind.DESCRIPTOR.full_name

    def decode(raw: bytes) -> Received[M]:
        try:
            return Received(parse(raw), len(raw), name)
        except DecodeError:
            return Received(None, len(raw), name)

    return decode
