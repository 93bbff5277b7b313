"""Calls that are answered once: what they did depends on what was there, so a repeat is given the answer of the first
time.

Schedule, Cancel by id and moves need none of this: their repeats are known by the row, the mark, the register that
they write (guarantee G2).
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from timerd.services.calls.due_times import HasRequestTime, clock_of
from timerd.services.engine.verbs import Verbs

NAME_BYTES = 16


class Repeatable(HasRequestTime, Protocol):
    """A request with a `request_id` and a `request_time`."""

    @property
    def request_id(self) -> str: ...

    def SerializeToString(self, *, deterministic: bool = ...) -> bytes: ...


Reply = TypeVar("Reply", bound=Message)


def name_of(namespace: str, request: Repeatable) -> bytes:
    """The hash of a call; empty where the caller gave no request_id: then a repeat is another call."""
    if not request.request_id:
        return b""
    content = request.SerializeToString(deterministic=True)
    verb = type(request).__name__
    return blake2b(f"{verb}\0{namespace}\0".encode() + content, digest_size=NAME_BYTES, person=b"timerd.call").digest()


def named(request_id: str, request: Message) -> str:
    """What a move is known by: the same request_id with other content is another request, as it is for Schedule."""
    content = blake2b(request.SerializeToString(deterministic=True), digest_size=12).hexdigest()
    return f"{request_id} {content}"


async def answered_once(
    verbs: Verbs,
    namespace: str,
    request: Repeatable,
    kind: type[Reply],
    carry_out: Callable[[], Awaitable[Reply]],
    is_final: Callable[[Reply], bool] = lambda _: True,
) -> Reply:
    """`is_final`: whether a reply is that of all repeats. Raises TooOld for what may be a repeat that is no longer
    known."""
    name = name_of(namespace, request)
    stored = await verbs.recall(name) if name else None
    if stored is None:
        clock_of(request, verbs.now_ms()).refuse_too_old()
        reply = await carry_out()
        if not name or not is_final(reply):
            return reply
        stored = await verbs.remember(name, zlib.compress(reply.SerializeToString()))
    return kind.FromString(zlib.decompress(stored))
