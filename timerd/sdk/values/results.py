"""What a handler has returned, on its way to who waits for it."""

from __future__ import annotations

from dataclasses import dataclass

from timerd.sdk.values.errors import InvalidTask
from timerd.v1 import task_pb2

MAX_RESULT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A result is what a handler returns of a task that was scheduled with `keep_result`.

    A handler may return its value alone; with `TaskResult` it says of what type it is.

    Args:
        value: bytes, or a text, which is sent as UTF-8; up to 64 KiB.
        content_type: what the value is, up to 128 characters. Default empty.

    Raises:
        InvalidTask: the value is something else, or longer.
    """

    value: bytes | str
    content_type: str = ""

    def __post_init__(self) -> None:
        value = self.value.encode() if isinstance(self.value, str) else self.value
        if not isinstance(value, bytes):
            raise InvalidTask(
                f"A handler of a task with `keep_result` returns bytes, a text, a `TaskResult` or None, not "
                f"{type(self.value).__name__}: turn it into bytes, as JSON for example.",
                field="result",
            )
        if len(value) > MAX_RESULT_BYTES:
            raise InvalidTask(
                f"The result has {len(value):,} bytes: at most {MAX_RESULT_BYTES:,} are kept. Keep large content "
                "elsewhere and return where to find it.",
                field="result",
            )
        object.__setattr__(self, "value", value)

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
