"""What a command prints: a table for people, or JSON for programs, never a mixture.

With --json one record is one object, several are one object a line, so that a reader can begin before the end.
Everything that is neither (progress, hints) goes to stderr.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

OutputRecord = Mapping[str, Any]


def text_of(payload: bytes) -> str | None:
    """The payload as text, where it is printable text."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return None
    return text if all(char.isprintable() or char in "\n\t\r" for char in text) else None


def payload_fields(payload: bytes) -> dict[str, str]:
    text = text_of(payload)
    return {"payload": text} if text is not None else {"payload_base64": base64.b64encode(payload).decode()}


def payload_shown(record: OutputRecord) -> str:
    return str(record["payload"]) if "payload" in record else f"base64 {record.get('payload_base64', '')}"


def labels_shown(labels: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(labels.items()))


class Output:
    """Where the results of one command go."""

    def __init__(self, as_json: bool, before: Callable[[], None] = lambda: None) -> None:
        self.as_json = as_json
        # Called before anything is printed: takes a bar away.
        self._before = before

    def one(self, record: OutputRecord, sentence: str) -> None:
        """One result: an object, or a sentence."""
        self._json(record) if self.as_json else self.say(sentence)

    def details(self, record: OutputRecord, shown: Mapping[str, object]) -> None:
        """One result with many fields: an object, or a table of two columns."""
        if self.as_json:
            self._json(record)
        else:
            rows = [(name, str(value)) for name, value in shown.items() if value not in ("", None)]
            self._table(("", ""), rows, header=False)

    def many(self, records: Iterable[OutputRecord], columns: Sequence[str], empty: str) -> int:
        """Objects line by line, or a table of the named fields. Returns how many there were."""
        if self.as_json:
            return sum(1 for record in records if self._json(record))
        rows = [tuple(_cell(record, column) for column in columns) for record in records]
        if rows:
            self._table(columns, rows)
        else:
            self.say(empty)
        return len(rows)

    def line(self, record: OutputRecord, text: str) -> None:
        """One of a stream of results."""
        self._json(record) if self.as_json else self.say(text)

    def say(self, sentence: str) -> None:
        if not self.as_json:
            self._before()
            print(sentence, flush=True)

    def _json(self, record: OutputRecord) -> bool:
        self._before()
        print(json.dumps(record, ensure_ascii=False, separators=(", ", ": ")), flush=True)
        return True

    def _table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], header: bool = True) -> None:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        self._before()
        table = Table(show_header=header, box=None, pad_edge=False, header_style="bold")
        for column in columns:
            # An id that is cut is of no use: it goes into the next line instead.
            table.add_column(column.replace("_", " "), overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        # A pipe has no width: lines are left whole for grep and the like.
        Console(width=None if sys.stdout.isatty() else 400).print(table)


def _cell(record: OutputRecord, column: str) -> str:
    value = record.get(column, "")
    if column == "payload":
        return payload_shown(record)
    return labels_shown(value) if isinstance(value, Mapping) else "" if value is None else str(value)
