"""What a command prints: a table for people, or JSON for programs, never a mixture.

With JSON one record is one object, several are one object a line, so that a reader can begin before the end.
Everything that is neither (progress, hints) goes to stderr.
"""

from __future__ import annotations

import base64
import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from timerd.commands.table import Column, fitted_table, folded, labels_shown, wide_table

__all__ = ["Form", "Output", "OutputRecord", "labels_shown", "payload_fields", "payload_shown", "text_of"]

OutputRecord = Mapping[str, Any]
# Where a pipe says nothing of its width.
_SIZE = (80, 24)


class Form(Enum):
    """How results are printed. The values are those of `--output`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    NAME = "name"

    @classmethod
    def of(cls, as_json: bool) -> Form:
        return cls.JSON if as_json else cls.TABLE


def text_of(payload: bytes) -> str | None:
    """The payload as text, where it is printable text."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None
    return text if all(char.isprintable() or char in "\n\t\r" for char in text) else None


def payload_fields(payload: bytes, name: str = "payload") -> dict[str, str]:
    text = text_of(payload)
    return {name: text} if text is not None else {f"{name}_base64": base64.b64encode(payload).decode()}


def payload_shown(record: OutputRecord, name: str = "payload") -> str:
    return str(record[name]) if name in record else f"base64 {record.get(f'{name}_base64', '')}"


class Output:
    """Where the results of one command go."""

    def __init__(
        self,
        form: Form = Form.TABLE,
        before: Callable[[], None] = lambda: None,
        write: Callable[[str, str], None] | None = None,
    ) -> None:
        self.form = form
        # Called before anything is printed: takes a bar away.
        self._before = before
        # Text of one or more lines, and its style.
        self._write = write or to_stdout
        # Ids of tasks that people were shown.
        self.shown_ids: list[str] = []

    @property
    def as_json(self) -> bool:
        return self.form is Form.JSON

    def one(self, record: OutputRecord, sentence: str) -> None:
        """One result: an object, its name, or a sentence."""
        if not self._bare(record):
            self.say(sentence)

    def details(self, record: OutputRecord, shown: Mapping[str, object]) -> None:
        """One result with many fields: an object, its name, or a table of two columns."""
        if not self._bare(record):
            pairs = [(name, str(value)) for name, value in shown.items() if value not in ("", None)]
            self._pairs(pairs)

    def many(self, records: Iterable[OutputRecord], columns: Sequence[Column], empty: str) -> int:
        """Objects or names line by line, or a table of these columns. Returns how many there were."""
        if self.form in (Form.JSON, Form.NAME):
            return sum(1 for record in records if self._bare(record))
        rows = [_with_payload(record) for record in records]
        for row in rows:
            self._note(row)
        if not rows:
            self.say(empty)
        elif self.form is Form.WIDE:
            self._table(wide_table(rows, columns))
        else:
            self._table(fitted_table(rows, columns, _width()))
        return len(rows)

    def line(self, record: OutputRecord, text: str) -> None:
        """One of a stream of results."""
        self.one(record, text)

    def say(self, sentence: str) -> None:
        if self.form in (Form.TABLE, Form.WIDE):
            self._print(sentence)

    def _bare(self, record: OutputRecord) -> bool:
        """For programs: the object, or the first of its fields, which names it. False: for people."""
        if self.form is Form.JSON:
            self._print(json.dumps(record, ensure_ascii=False, separators=(", ", ": ")))
        elif self.form is Form.NAME:
            self._print(str(next(iter(record.values()))))
        else:
            self._note(record)
        return self.form in (Form.JSON, Form.NAME)

    def _note(self, record: OutputRecord) -> None:
        if task_id := record.get("task_id"):
            self.shown_ids.append(str(task_id))

    def _table(self, lines: Iterable[str]) -> None:
        heading, *rows = lines
        self._print(heading, "bold")
        self._print("\n".join(rows))

    def _pairs(self, pairs: Sequence[tuple[str, str]]) -> None:
        indent = max((len(name) for name, _ in pairs), default=0) + 2
        for name, value in pairs:
            parts = [part for line in value.splitlines() or [""] for part in self._folded(line, indent)]
            for index, part in enumerate(parts):
                self._print(f"{'' if index else name:<{indent}}{part}")

    def _folded(self, line: str, indent: int) -> list[str]:
        clean = "".join(char if char.isprintable() else " " for char in line)
        return [clean] if self.form is Form.WIDE else folded(clean, max(20, _width() - indent))

    def _print(self, text: str, style: str = "") -> None:
        self._before()
        self._write(text, style)


def to_stdout(text: str, style: str) -> None:
    """The default of `Output.write`. Lines are left as they are, and pipes get no styles."""
    if not (style and sys.stdout.isatty()):
        return print(text, flush=True)
    from rich.console import Console
    from rich.text import Text

    return Console().print(Text(text, style=style), soft_wrap=True)


def _width() -> int:
    return shutil.get_terminal_size(_SIZE).columns


def _with_payload(record: OutputRecord) -> OutputRecord:
    return record | {"payload": payload_shown(record)} if "payload_base64" in record else record  # type: ignore[operator]
