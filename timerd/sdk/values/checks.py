"""What callers hand in, looked at before anything is sent: each mistake is a sentence in the caller's own words.

Here stand the rules of form and the sizes that no server takes. Names, numbers of labels and the like are the server's
to judge: it may allow more one day.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from timerd.sdk.values.errors import InvalidTask

# No server is set to more (its own default is 64 KiB, and it answers for that itself).
MAX_PAYLOAD_BYTES = 1 << 20
# What a server takes as one message.
MAX_MESSAGE_BYTES = 16 << 20
MAX_PRIORITY = 10
# Above what any of them may have: an id has 59 characters, a key at most 256, and all labels together some thousands.
_MAX_CHARS = 1024
_MAX_LABELS_CHARS = 64 << 10
# What Celery, Django, APScheduler and others call them.
_MEANT = {
    "eta": "at",
    "run_after": "at",
    "run_date": "at",
    "when": "at",
    "countdown": "delay",
    "expires": "expire_after",
}


def invalid(sentence: str, field: str, reason: str = "INVALID") -> InvalidTask:
    return InvalidTask(sentence, reason=reason, field=field)


def check_keywords(call: str, given: Mapping[str, object], allowed: Set[str]) -> None:
    """Raises TypeError, as Python does where the keywords stand in the signature one by one."""
    if not given.keys() <= allowed:
        unknown = next(name for name in given if name not in allowed)
        meant = f". Did you mean {_MEANT[unknown]!r}?" if unknown in _MEANT else ""
        raise TypeError(f"{call}() got an unexpected keyword argument {unknown!r}{meant}")


def text(value: object, field: str, most_chars: int = _MAX_CHARS) -> str:
    if not isinstance(value, str):
        raise invalid(f"`{field}` is text, not {value!r:.200}.", field)
    if len(value) > most_chars:
        raise invalid(f"`{field}` has {len(value):,} characters: no server takes more than {most_chars:,}.", field)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise invalid(f"`{field}` is {value!r:.200}, which cannot be written as UTF-8.", field) from None
    return value


def name(value: object, field: str) -> str:
    """Text that says which task is meant."""
    given = text(value, field)
    if not given:
        raise invalid(f"`{field}` is empty: give its text.", field)
    return given


def queue_of_decorator(value: object, decorator: str) -> str:
    """Who comes from Celery writes the decorator bare: Python calls it with the function then."""
    if callable(value):
        raise invalid(f'The decorator `{decorator}` takes a queue: write `.{decorator}("mails")`.', "queue")
    return name(value, "queue")


def check_registry(value: object) -> None:
    """Who comes from Celery includes a task, or the module that has it."""
    if not callable(getattr(value, "handlers", None)):
        wrong = f"`tasks` is a registry, a `timerd.tasks.Tasks`, not {type(value).__name__}."
        raise invalid(f"{wrong} It includes all of its functions: `worker.include(tasks)`.", "tasks")


def optional_name(value: object, field: str) -> str | None:
    if value == "":
        raise invalid(f"`{field}` is empty: give its text, or leave it out.", field)
    return None if value is None else name(value, field)


def id_list(given: object, field: str = "task_ids") -> list[str]:
    """An empty one is a task that was not stored: the server says of it that it does not exist."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise invalid(f"`{field}` must be a list of task ids, not {given!r:.200}.", field)
    return [each and name(each, f"{field}[{index}]") for index, each in enumerate(given)]


def listed(given: object, field: str) -> Iterable[Any]:
    """Several of something. A text by itself would be taken for its characters."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise invalid(f"`{field}` is {given!r:.200}: give a list of them.", field)
    return given


def labels_tuple(labels: object) -> tuple[tuple[str, str], ...]:
    """Sorted, so that equal labels are equal."""
    if labels is None:
        return ()
    if not isinstance(labels, Mapping):
        raise invalid(f"`labels` is a dict of texts, not {labels!r:.200}.", "labels")
    if not all(isinstance(each, str) for pair in labels.items() for each in pair):
        raise invalid(f"Labels are text with text as values, not {labels!r:.200}.", "labels")
    for each in labels.items():
        text("".join(each), "labels", _MAX_LABELS_CHARS)
    if sum(len(key) + len(value) for key, value in labels.items()) > _MAX_LABELS_CHARS:
        raise invalid(
            f"The labels have more than {_MAX_LABELS_CHARS:,} characters in all: send fewer of them.", "labels"
        )
    return tuple(sorted(labels.items()))


def whole_number(value: object, field: str, least: int = 0, most: int = (1 << 31) - 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise invalid(f"`{field}` is {value!r:.200}; give a whole number from {least} to {most:,}.", field)
    return value


def flag(value: object, field: str) -> bool:
    """Yes or no: a text such as "no" would be a yes."""
    if not isinstance(value, bool):
        raise invalid(f"`{field}` is {value!r:.200}; give True or False.", field)
    return value


def _utf8(payload: str) -> bytes:
    try:
        return payload.encode()
    except UnicodeEncodeError:
        raise invalid("The payload is text that cannot be written as UTF-8: encode it first.", "payload") from None


def payload_bytes(payload: object) -> bytes:
    if isinstance(payload, str):
        payload = _utf8(payload)
    elif isinstance(payload, bytearray | memoryview):
        payload = bytes(payload)
    if not isinstance(payload, bytes):
        raise invalid(
            f"A payload is bytes or str, not {type(payload).__name__}. Encode it first, for example by "
            "`json.dumps(...)`.",
            "payload",
        )
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise invalid(
            f"The payload has {len(payload):,} bytes: no server takes more than {MAX_PAYLOAD_BYTES:,}. Keep large "
            "content elsewhere and send where to find it.",
            "payload",
            "PAYLOAD_TOO_LARGE",
        )
    return payload


def sendable(message: bytes) -> bytes:
    """A larger one would break the stream that it shares with others."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise invalid(
            f"The request has {len(message):,} bytes: a server takes at most {MAX_MESSAGE_BYTES:,} at a time. Send "
            "shorter labels and texts, or fewer tasks.",
            "",
            "MESSAGE_TOO_LARGE",
        )
    return message


def check_one_held(limit: str, *, by_key: bool) -> None:
    """Of who was throttled. Raises InvalidTask."""
    if flag(by_key, "by_key") and limit:
        raise invalid(
            f"`limit` ({limit!r}) is of all that list it, and `by_key` is of one limit key: give the one or the other.",
            "by_key",
        )
