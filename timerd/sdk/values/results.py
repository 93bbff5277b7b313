"""What a handler has returned, on its way to who waits for it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from timerd.sdk.values.errors import InvalidTask
from timerd.v1 import task_pb2

MAX_RESULT_BYTES = 64 * 1024
_MAX_CONTENT_TYPE_CHARS = 128
# No control characters, and no halves of characters.
_PLAIN = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]*")


class InvalidResult(InvalidTask):
    """A handler has returned what cannot be kept. Another attempt would return it again."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A result is what a handler returns of a task that was scheduled with `keep_result`.

    A handler may return its value alone; with `TaskResult` it says of what type it is.

    Args:
        value: bytes, or a text, which is sent as UTF-8; up to 64 KiB.
        content_type: what the value is, up to 128 characters. Default empty.

    Raises:
        InvalidTask: the value or its type is something else, or longer. In a handler it ends the task as a dead letter,
            as `Reject` does.
    """

    value: bytes | str
    content_type: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _bytes(self.value))
        _check_content_type(self.content_type)

    @classmethod
    def of(cls, returned: object) -> TaskResult:
        """The result is what a handler has returned.

        Args:
            returned: bytes, a text, or a result as it is.

        Raises:
            InvalidTask: it is nothing that can be kept.
        """
        return returned if isinstance(returned, TaskResult) else cls(returned)  # type: ignore[arg-type] # it is looked at

    def to_proto(self) -> task_pb2.Result:
        """The message says what this result says."""
        return task_pb2.Result(value=self.value, content_type=self.content_type)  # type: ignore[arg-type]


def unkept(sentence: str) -> InvalidResult:
    return InvalidResult(sentence, reason="INVALID", field="result")


def _bytes(value: object) -> bytes:
    try:
        value = value.encode() if isinstance(value, str) else value
    except UnicodeEncodeError:
        raise unkept("The result is text that cannot be written as UTF-8: encode it first.") from None
    if not isinstance(value, bytes):
        raise unkept(
            f"A handler of a task with `keep_result` returns bytes, a text, a `TaskResult` or None, not "
            f"{type(value).__name__}: turn it into bytes, as JSON for example."
        )
    if len(value) > MAX_RESULT_BYTES:
        raise unkept(
            f"The result has {len(value):,} bytes: at most {MAX_RESULT_BYTES:,} are kept. Keep large content "
            "elsewhere and return where to find it."
        )
    return value


def _check_content_type(given: object) -> None:
    """As the server takes it, which would refuse the end of the whole attempt for it."""
    if not isinstance(given, str) or len(given) > _MAX_CONTENT_TYPE_CHARS or not _PLAIN.fullmatch(given):
        raise unkept(
            f"The content_type of a result is {given!r:.200}: give text of at most {_MAX_CONTENT_TYPE_CHARS} "
            "characters without control characters."
        )
