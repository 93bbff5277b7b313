"""Messages as JSON, by protobuf's own mapping. What is written by hand may be wrong, and is told where.

Large ones are read and written in a thread: the loop has tasks to fire.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from timerd.model.errors import Invalid
from timerd.web.json_faults import first_fault
from timerd.web.json_writing import tree_of

# Some milliseconds of work.
INLINE_BYTES = 16 << 10
MAX_SAID_CHARS = 300
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
M = TypeVar("M", bound=Message)
P = ParamSpec("P")
R = TypeVar("R")


async def read_json(body: bytes, message: M) -> M:
    """Fills the message. Raises Invalid."""
    return await _away(len(body), _read, body, message)


async def write_json(message: Message) -> bytes:
    return await _away(message.ByteSize(), _write, message)


async def _away(size_bytes: int, work: Callable[P, R], *given: P.args, **named: P.kwargs) -> R:
    if size_bytes <= INLINE_BYTES:
        return work(*given, **named)
    return await asyncio.to_thread(work, *given, **named)


def _write(message: Message) -> bytes:
    return json.dumps(tree_of(message), ensure_ascii=False).encode()


def _read(body: bytes, message: M) -> M:
    name, tree = message.DESCRIPTOR.full_name, None
    try:
        tree = json.loads(body.decode(), object_pairs_hook=_once)
        if not isinstance(tree, dict):
            raise ValueError("it is written in braces")
        for field in _no_base64(message.DESCRIPTOR, tree):
            raise ValueError(f"{field} holds bytes, which are written in base64")
        json_format.ParseDict(tree, message, max_recursion_depth=20)
    except Exception as error:  # noqa: BLE001 - what the readers raise of a stranger's text is known to nobody
        fault = first_fault(message.DESCRIPTOR, tree) if isinstance(tree, dict) else None
        field, sentence = fault or ("", _said(error))
        raise Invalid(f"The body is no {name} in JSON: {sentence}.", field, "MALFORMED") from None
    return message


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a field stands there twice")
    return found


def _no_base64(kind: Any, tree: object) -> Iterator[str]:  # noqa: ANN401 - a descriptor, of either kind
    """The fields of bytes that hold other text: protobuf's reader would leave out what it does not know of it."""
    if not isinstance(tree, dict):
        return
    for name, value in tree.items():
        field = kind.fields_by_camelcase_name.get(name) or kind.fields_by_name.get(name)
        if field is None:
            continue
        for each in value if isinstance(value, list) else [value]:
            if field.type == FieldDescriptor.TYPE_BYTES and isinstance(each, str) and not _BASE64.fullmatch(each):
                yield name
            elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
                yield from _no_base64(field.message_type, each)


def _said(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return " ".join(str(error).split())[:MAX_SAID_CHARS].rstrip(".")
