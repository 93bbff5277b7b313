"""Messages of the API as trees of JSON, in protobuf's own mapping, whose writer takes several times as long.

What it asks of the descriptor for each field of each message is asked once for each kind of message here. A page that
is open asks for hundreds of small messages every two seconds, and the loop that writes them fires tasks as well.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from math import isfinite, isnan
from typing import Any

from google.protobuf import descriptor_pool, json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

# What protobuf's own mapping says of a message of theirs is left to it.
OURS = "timerd."
TIMESTAMP = "google.protobuf.Timestamp"
# 0001 to 1969 and what is out of range are left to protobuf.
_END_S = 253_402_300_800
_INT64 = frozenset(
    (
        FieldDescriptor.TYPE_INT64,
        FieldDescriptor.TYPE_UINT64,
        FieldDescriptor.TYPE_SINT64,
        FieldDescriptor.TYPE_FIXED64,
        FieldDescriptor.TYPE_SFIXED64,
    )
)
FieldWriter = Callable[[Any], Any]


def tree_of(message: Message) -> Any:  # noqa: ANN401 - JSON
    """As json_format.MessageToDict."""
    return _tree(message, message.DESCRIPTOR.full_name)


def _tree(message: Message, name: str) -> dict[str, Any]:
    fields = _fields_of(name)
    found = {}
    for field, value in message.ListFields():
        key, write = fields[field.number]
        found[key] = write(value)
    return found


@cache
def _fields_of(name: str) -> Mapping[int, tuple[str, FieldWriter]]:
    """Number -> its name in JSON, and how its value is written."""
    kind: Descriptor = descriptor_pool.Default().FindMessageTypeByName(name)
    return {field.number: (field.json_name, _writer_of(field)) for field in kind.fields}


def _writer_of(field: FieldDescriptor) -> FieldWriter:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return _map_writer(key, _one(value))
    one = _one(field)
    if not field.is_repeated:
        return one
    return list if one is _as_it_is else lambda values: [*map(one, values)]


def _map_writer(key: FieldDescriptor, one: FieldWriter) -> FieldWriter:
    name = _bool_name if key.type == FieldDescriptor.TYPE_BOOL else str
    return lambda values: {name(each): one(value) for each, value in values.items()}


def _one(field: FieldDescriptor) -> FieldWriter:
    """Of one value."""
    if field.message_type is not None:
        return _message_writer(field.message_type.full_name)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, number)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda value: b64encode(value).decode()
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return _double
    if field.type == FieldDescriptor.TYPE_FLOAT:
        raise TypeError(f"{field.full_name} is a float, which has no writer here: make it a double.")
    return str if field.type in _INT64 else _as_it_is


def _message_writer(name: str) -> FieldWriter:
    if name == TIMESTAMP:
        return _timestamp
    if name.startswith(OURS):
        return lambda message: _tree(message, name)
    return json_format.MessageToDict


def _as_it_is(value: Any) -> Any:  # noqa: ANN401 - of any kind
    return value


def _bool_name(value: bool) -> str:
    return "true" if value else "false"


def _double(value: float) -> float | str:
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _timestamp(message: Any) -> Any:  # noqa: ANN401 - a Timestamp
    seconds, nanos = message.seconds, message.nanos
    if not (0 <= seconds < _END_S and 0 <= nanos < 1_000_000_000):
        return message.ToJsonString()
    if nanos % 1_000_000:
        return message.ToJsonString()
    whole = datetime.fromtimestamp(seconds, UTC).isoformat()[:19]
    return f"{whole}.{nanos // 1_000_000:03}Z" if nanos else f"{whole}Z"
