"""How far an attempt has come: said by its handler, and seen by the next one."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from timerd.sdk.values.errors import InvalidTask
from timerd.v1 import task_pb2

MAX_CURSOR_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress is what a handler has said of its attempt.

    Args:
        fraction: how far it has come, 0 to 1. Default 0.
        cursor: what the next attempt needs to go on from there, bytes or a text, which is sent as UTF-8; up to 1 KiB.
            Default nothing.

    Raises:
        InvalidTask: the fraction is no number from 0 to 1, or the cursor is longer.
    """

    fraction: float = 0.0
    cursor: bytes | str = b""

    def __post_init__(self) -> None:
        if isinstance(self.fraction, bool) or not isinstance(self.fraction, int | float) or not 0 <= self.fraction <= 1:
            raise InvalidTask(f"`fraction` is a number from 0 to 1, not {self.fraction!r:.60}.", field="fraction")
        cursor = self.cursor.encode() if isinstance(self.cursor, str) else self.cursor
        if not isinstance(cursor, bytes) or len(cursor) > MAX_CURSOR_BYTES:
            raise InvalidTask(
                f"`cursor` is bytes or a text, at most {MAX_CURSOR_BYTES:,} bytes, not {self.cursor!r:.60}. Keep large "
                "content elsewhere, and say where it is.",
                field="cursor",
            )
        object.__setattr__(self, "cursor", cursor)

    @classmethod
    def of(cls, message: task_pb2.Progress) -> Progress | None:
        """The progress says what `message` says; None where that says nothing."""
        return cls(message.fraction, message.cursor) if message.ByteSize() else None

    def to_proto(self) -> task_pb2.Progress:
        """The message says what this progress says."""
        return task_pb2.Progress(fraction=self.fraction, cursor=self.cursor)  # type: ignore[arg-type]


class Noted:
    """Done already: it may be awaited, and need not be."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


NOTED = Noted()
