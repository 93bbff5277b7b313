"""What a reply has for those who may look at tasks and not into them (the role `view`): no payload, no result, no error
and no cursor, for a worker may have written into them what the payload holds."""

from __future__ import annotations

from google.protobuf.message import Message

# Fields of whatever message of our API.
CONTENTS = frozenset({"payload", "payloads", "last_error", "error", "cursor", "value"})


def redacted(reply: object) -> object:
    """The same message, with these fields empty at any depth."""
    if isinstance(reply, Message):
        _empty(reply)
    return reply


def _empty(message: Message) -> None:
    for field, value in message.ListFields():
        if field.name in CONTENTS:
            message.ClearField(field.name)
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for each in [value] if isinstance(value, Message) else value:
                _empty(each)
