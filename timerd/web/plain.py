"""Messages as the short routes show them, for people and shell scripts: names and words as they are, numbers as
numbers, a payload that is text as text. And what is written in their requests: spans and instants."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from timerd.model.errors import Invalid

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(ms|s|m|h|d)")
_SPAN = re.compile(rf"(?:{_PART.pattern})+")
_SHOWN_CHARS = 60
# Bytes of callers and handlers: of a task, and of its result.
_CONTENTS = {"payload", "value"}
# Said only where it is so.
_ONLY_TRUE = {"is_cancelling", "on_demand"}


def plain(message: Message) -> dict[str, Any]:
    """Without texts, lists and messages that are empty."""
    shown = {field.name: _plain_value(message, field) for field in message.DESCRIPTOR.fields}
    for name in _CONTENTS & shown.keys():
        shown |= _text_or_base64(name, shown.pop(name))
    shown = {name: value for name, value in shown.items() if value not in ("", None, [], {})}
    return {name: value for name, value in shown.items() if value or name not in _ONLY_TRUE}


def _plain_value(message: Message, field: Any) -> Any:  # noqa: ANN401 - what JSON has
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return dict(value)
    if is_repeated(field):
        return [_plain_one(each, field) for each in value]
    if field.message_type is not None and not message.HasField(field.name):
        return None
    return value if field.name in _CONTENTS else _plain_one(value, field)


def is_repeated(field: Any) -> bool:  # noqa: ANN401 - a descriptor, of either kind
    """The older of the releases of protobuf that we run on say it in another way than the newer."""
    said = getattr(field, "is_repeated", None)
    return bool(said) if said is not None else field.label == field.LABEL_REPEATED


def _plain_one(value: Any, field: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(value, Timestamp | Duration):
        return value.ToJsonString()
    if isinstance(value, Message):
        return plain(value)
    if field.enum_type is not None:
        return word_of(value, field.enum_type)
    return token_text(value) if isinstance(value, bytes) else value


def word_of(number: int, kind: Any) -> str | None:  # noqa: ANN401 - a descriptor, of either kind
    """ACKED of TASK_STATE_ACKED, in lower case; None: unspecified."""
    named = kind.values_by_number.get(number)
    prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.name).upper() + "_"
    return str(named.name).removeprefix(prefix).lower() if named is not None and number else None


def _text_or_base64(name: str, content: bytes) -> dict[str, str]:
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


def token_text(token: bytes) -> str:
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def token_of(text: object) -> bytes:
    """Raises Invalid."""
    try:
        clean = str(text).rstrip("=").replace("+", "-").replace("/", "_").encode("ascii")
        return base64.b64decode(clean + b"=" * (-len(clean) % 4), b"-_", validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        raise Invalid("An ack token is what receive has given, as it is.", "ack_token") from None


def span_of(text: object, field: str) -> Duration:
    """3s, 500ms, 1h30m. Raises Invalid."""
    if isinstance(text, str) and _SPAN.fullmatch(text.removeprefix("-")) and text.startswith("-"):
        raise Invalid(f"{field} is {_quoted(text)}: a span is 0 or more, as 0s, 3s or 1h30m.", field)
    if not isinstance(text, str) or not _SPAN.fullmatch(text):
        raise Invalid(f"{field} is {_quoted(text)}: write it with a unit, as 3s, 500ms, 1h30m or 2d.", field)
    total_ms = sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text))
    span = Duration()
    try:
        span.FromMilliseconds(round(total_ms))
    except ValueError:
        raise Invalid(f"{field} is {_quoted(text)}, which is too long.", field) from None
    return span


def instant_of(text: object, field: str) -> Timestamp:
    """2030-01-01T09:00:00Z, or with an offset. Raises Invalid."""
    stamp = Timestamp()
    try:
        # In a query a plus is a space.
        stamp.FromJsonString(str(text).replace(" ", "+"))
    except ValueError:
        said = f"{field} is {_quoted(text)}: write an instant as 2030-01-01T09:00:00Z, or with an offset (+02:00)."
        raise Invalid(said, field) from None
    return stamp


def count_of(text: str, field: str, least: int, most: int) -> int:
    """Raises Invalid."""
    count = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else -1
    if not least <= count <= most:
        raise Invalid(f"{field} is {_quoted(text)}: write a whole number from {least:,} to {most:,}.", field)
    return count


def flag_of(text: str, field: str) -> bool:
    """Raises Invalid."""
    if text not in ("true", "false"):
        raise Invalid(f"{field} is {_quoted(text)}: write true or false.", field)
    return text == "true"


def _quoted(text: object) -> str:
    return repr(text)[:_SHOWN_CHARS]
