"""Where JSON is not the message that it should be, said for who wrote it: the field, what it is, what it may be.

protobuf's own reader judges. What it says of a mistake speaks of Python, so after its refusal the first mistake is
looked for here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from timerd.web.plain import is_repeated

MOST_SHOWN_CHARS = 60
_INSTANT = "write an instant as 2030-01-01T09:00:00Z, or with an offset (+02:00)"
_SPAN = "write seconds with an s, as 3s or 0.250s"
_WRITTEN: Mapping[str, tuple[Any, str]] = {
    "google.protobuf.Timestamp": (Timestamp, _INSTANT),
    "google.protobuf.Duration": (Duration, _SPAN),
}
# Other messages that protobuf writes in a form of their own.
_OWN_FORM = "google.protobuf."
_BITS = {
    **dict.fromkeys(
        (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SFIXED32), (-31, 31)
    ),
    **dict.fromkeys(
        (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_SFIXED64), (-63, 63)
    ),
    **dict.fromkeys((FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_FIXED32), (0, 32)),
    **dict.fromkeys((FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64), (0, 64)),
}
_REAL = (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT)


class Fault(NamedTuple):
    field: str
    sentence: str


def first_fault(kind: Any, tree: Mapping[str, Any]) -> Fault | None:  # noqa: ANN401 - a descriptor, of either kind
    """None: it looks right."""
    return next(_of_message(kind, tree, ""), None)


def _of_message(kind: Any, tree: object, path: str) -> Iterator[Fault]:  # noqa: ANN401 - as above
    if not isinstance(tree, Mapping):
        yield Fault(path, f"{path} is {_shown(tree)}: write its fields in braces")
        return
    within = f"{path}." if path else ""
    chosen: dict[str, str] = {}
    for name, value in tree.items():
        field = kind.fields_by_camelcase_name.get(name) or kind.fields_by_name.get(name)
        if field is None:
            yield _no_field(f"{within}{name}", name, kind.fields_by_camelcase_name)
        elif value is not None:
            choice = field.containing_oneof.name if field.containing_oneof is not None else ""
            if choice and chosen.setdefault(choice, name) != name:
                yield Fault(f"{within}{name}", f"Both {within}{chosen[choice]} and {within}{name} are set: give one")
            yield from _of_field(field, value, f"{within}{name}")


def _no_field(path: str, name: str, names: Collection[str]) -> Fault:
    near = get_close_matches(name, names, 1)
    allowed = f"the nearest is {near[0]}" if near else f"use {', '.join(names) or 'none'}"
    return Fault(path, f"{path[:MOST_SHOWN_CHARS]} is no field here: {allowed}")


def _of_field(field: Any, value: object, path: str) -> Iterator[Fault]:  # noqa: ANN401 - as above
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if not isinstance(value, Mapping):
            yield Fault(path, f'{path} is {_shown(value)}: write names and values in braces, as {{"name": ...}}')
            return
        of_values = field.message_type.fields_by_name["value"]
        for name, each in value.items():
            yield from _of_one(of_values, each, f"{path}.{name[:MOST_SHOWN_CHARS]}")
    elif is_repeated(field):
        if not isinstance(value, list):
            yield Fault(path, f"{path} is {_shown(value)}: write a list in brackets")
            return
        for place, each in enumerate(value):
            yield from _of_one(field, each, f"{path}[{place}]")
    else:
        yield from _of_one(field, value, path)


def _of_one(field: Any, value: object, path: str) -> Iterator[Fault]:  # noqa: ANN401 - as above
    message = field.message_type
    if message is not None and not message.full_name.startswith(_OWN_FORM):
        yield from _of_message(message, value, path)
    elif allowed := _of_written(message.full_name, value) if message is not None else _of_scalar(field, value):
        yield Fault(path, f"{path} is {_shown(value)}: {allowed}")


def _of_written(name: str, value: object) -> str:
    """What is allowed; empty where it is that."""
    if name not in _WRITTEN:
        return ""
    kind, allowed = _WRITTEN[name]
    try:
        kind().FromJsonString(value)
    except Exception:  # noqa: BLE001 - of what is no text it raises whatever comes
        return allowed
    return ""


def _of_scalar(field: Any, value: object) -> str:  # noqa: ANN401 - as above
    """As _of_written."""
    if field.type in _BITS:
        return _of_whole(*_BITS[field.type], value)
    if field.type in _REAL:
        return "" if _is_number(value) else "write a number"
    if field.type == FieldDescriptor.TYPE_BOOL:
        return "" if isinstance(value, bool) else "write true or false"
    if field.type == FieldDescriptor.TYPE_ENUM:
        names = field.enum_type.values_by_name
        known = value in names if isinstance(value, str) else isinstance(value, int)
        return "" if known else f"use {', '.join(names)}"
    how = "write base64 in quotes" if field.type == FieldDescriptor.TYPE_BYTES else "write a text in quotes"
    return "" if isinstance(value, str) else how


def _of_whole(least_bits: int, most_bits: int, value: object) -> str:
    least, most = -(1 << -least_bits) if least_bits else 0, (1 << most_bits) - 1
    whole: object = None
    with suppress(ValueError):
        whole = int(value) if isinstance(value, str) else value
    if (
        isinstance(whole, int | float)
        and not isinstance(whole, bool)
        and whole == whole // 1
        and least <= whole <= most
    ):
        return ""
    return f"write a whole number from {least:,} to {most:,}"


def _is_number(value: object) -> bool:
    try:
        return not isinstance(value, bool) and not math.isnan(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _shown(value: object) -> str:
    if isinstance(value, Mapping | list):
        return "in braces" if isinstance(value, Mapping) else "a list"
    return repr(value)[:MOST_SHOWN_CHARS]
