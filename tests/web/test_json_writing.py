"""Messages as JSON: the same trees as protobuf's own writer makes, of every message that the API answers with."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from google.protobuf import descriptor_pool, json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from tests.web.rig import UNARY
from timerd.v1 import cycle_service_pb2 as cycles
from timerd.v1 import overview_service_pb2 as overview
from timerd.v1 import regulation_service_pb2 as regulation
from timerd.web.json_form import write_json
from timerd.web.json_writing import tree_of

OTHERS = [
    method
    for file in (cycles, overview, regulation)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
REPLIES = sorted({method.output_type for method in (*UNARY, *OTHERS)}, key=lambda kind: kind.full_name)
INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    # Also numbers that no release knows yet.
    FieldDescriptor.CPPTYPE_ENUM: (0, 12),
}
MOST_DEPTH = 4
TIMES = st.builds(
    Timestamp,
    seconds=st.integers(-62_135_596_800, 253_402_300_799),
    nanos=st.one_of(st.integers(0, 999_999_999), st.integers(0, 999).map(lambda ms: ms * 1_000_000)),
)


def scalars(field: FieldDescriptor) -> st.SearchStrategy[object]:
    if field.cpp_type in INTEGERS:
        return st.integers(*INTEGERS[field.cpp_type])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=9)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return st.text(max_size=5)
    return st.booleans() if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL else st.floats()


def fill(message: Message, data: st.DataObject, depth: int = 0) -> Message:
    """Some of its fields."""
    for field in message.DESCRIPTOR.fields:
        if data.draw(st.booleans()) and not (field.message_type and depth == MOST_DEPTH):
            fill_field(message, field, data, depth)
    return message


def fill_field(message: Message, field: Any, data: st.DataObject, depth: int) -> None:  # noqa: ANN401 - a descriptor, of either kind
    kind = field.message_type
    if kind is None:
        values = data.draw(st.lists(scalars(field), max_size=3))
        if field.is_repeated:
            getattr(message, field.name).extend(values)
        elif values:
            setattr(message, field.name, values[0])
    elif kind.GetOptions().map_entry:
        fill_map(getattr(message, field.name), kind, data, depth)
    elif field.is_repeated:
        for _ in range(data.draw(st.integers(0, 2))):
            getattr(message, field.name).append(filled(kind, data, depth))
    else:
        getattr(message, field.name).CopyFrom(filled(kind, data, depth))


def fill_map(values: dict[object, object], kind: Descriptor, data: st.DataObject, depth: int) -> None:
    key, value = kind.fields_by_name["key"], kind.fields_by_name["value"]
    for each in data.draw(st.lists(scalars(key), max_size=2, unique=True)):
        if value.message_type is None:
            values[each] = data.draw(scalars(value))
        else:
            values[each].CopyFrom(filled(value.message_type, data, depth))  # type: ignore[attr-defined]


def filled(kind: Descriptor, data: st.DataObject, depth: int) -> Message:
    if kind.full_name == "google.protobuf.Timestamp":
        return data.draw(TIMES)
    message = GetMessageClass(kind)()
    if kind.full_name == "google.protobuf.Duration":
        message.FromMilliseconds(data.draw(st.integers(-(10**12), 10**12)))  # type: ignore[attr-defined]
        return message
    if not kind.full_name.startswith("timerd."):
        return message
    return fill(message, data, depth + 1)


@given(kind=st.sampled_from(REPLIES), data=st.data())
def test_a_reply_is_written_as_protobuf_writes_it(kind: Descriptor, data: st.DataObject) -> None:
    message = fill(GetMessageClass(kind)(), data)
    ours, theirs = json.dumps(tree_of(message)), json.dumps(json_format.MessageToDict(message))
    assert ours == theirs


def reachable(kinds: Iterable[Descriptor]) -> set[str]:
    found: dict[str, Descriptor] = {}
    waiting = [*kinds]
    while waiting:
        kind = waiting.pop()
        if kind.full_name not in found:
            found[kind.full_name] = kind
            waiting += [field.message_type for field in kind.fields if field.message_type is not None]
    return {*found}


def test_each_message_within_a_reply_has_a_writer() -> None:
    """Also those that no test fills: an empty one of each."""
    for name in sorted(reachable(REPLIES)):
        if name.startswith("timerd."):
            kind = descriptor_pool.Default().FindMessageTypeByName(name)
            assert kind.GetOptions().map_entry or tree_of(GetMessageClass(kind)()) == {}


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), 0.5, 3.0])
async def test_what_is_no_number_of_json_is_a_text(number: float) -> None:
    body = await write_json(overview.GetOverviewResponse(lateness_bounds_ms=[number]))
    assert (
        body
        == json_format.MessageToJson(overview.GetOverviewResponse(lateness_bounds_ms=[number]), indent=None).encode()
    )
