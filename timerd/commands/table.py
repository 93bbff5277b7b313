"""A table of records that fits its width.

It gives way in this order: columns in which nothing stands go, ids move into a line of their own below each row, spare
columns go, texts are cut at their end, names go on in the next line. An id is never cut: half of one is of no use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from itertools import product
from typing import Any

from timerd.commands.times import relative, short_iso

_GAP = "  "
# An id that is longer stands below its row where there is no room beside it.
_SHORT_ID = 24
# What a column that gives way is left with, at first and in the last resort.
_NARROW, _LEAST = 16, 6


class Kind(Enum):
    """What stands in a column, which says how it gives way."""

    ID = auto()  # whole
    NAME = auto()  # goes on in the next line
    TEXT = auto()  # cut at its end
    WORD = auto()  # whole
    FIGURE = auto()  # whole, at the right of its column
    MOMENT = auto()  # an ISO time, told from now: in 3 h 20 m
    INSTANT = auto()  # an ISO time, without the parts that are zero


@dataclass(frozen=True, slots=True)
class Column:
    """The field `name` of the records. `is_wide`: only in the wide table; `is_spare`: only where there is room."""

    name: str
    kind: Kind = Kind.WORD
    title: str = ""
    is_wide: bool = False
    is_spare: bool = False

    @property
    def heading(self) -> str:
        return self.title or self.name.replace("_", " ")


def wide_table(records: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> Iterator[str]:
    """All columns, times as they are, a line each: for wide terminals and for grep."""
    rows = [[_plain(record, column) for column in columns] for record in records]
    yield from _aligned(columns, [[column.heading for column in columns], *rows])


def _aligned(columns: Sequence[Column], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    from rich.cells import cell_len

    widths = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    return (_line(columns, widths, cells) for cells in lines)


def fitted_table(records: Sequence[Mapping[str, Any]], columns: Sequence[Column], width: int) -> Iterator[str]:
    """The columns that there is room for in `width`; the first line is the heading."""
    now = datetime.now(UTC)
    told = {column: [_told(record, column, now) for record in records] for column in columns if not column.is_wide}
    cells = {column: texts for column, texts in told.items() if any(texts)} or told
    below = _below(cells, width)
    beside = {column: texts for column, texts in cells.items() if column not in below}
    widths = _widths(beside, width)
    shown = list(widths)
    yield _line(shown, list(widths.values()), [column.heading for column in shown])
    for index in range(len(records)):
        row = [beside[column][index] for column in shown]
        yield from _row(shown, list(widths.values()), row)
        for column in below:
            yield from (_GAP + part for part in folded(cells[column][index], width - len(_GAP)))


def _below(cells: Mapping[Column, Sequence[str]], width: int) -> list[Column]:
    """The ids that do not fit beside the rest: the long ones, or all where it is tighter still."""
    natural = {column: wide for column, wide in _natural(cells).items() if not column.is_spare}
    ids = [column for column in natural if column.kind is Kind.ID]
    if len(natural) == len(ids) or _total(natural | _narrowed(natural, Kind.TEXT)) <= width:
        return []
    tight = _total(natural | _narrowed(natural, Kind.TEXT, Kind.NAME)) > width
    return [column for column in ids if natural[column] > _SHORT_ID or tight]


def _natural(cells: Mapping[Column, Sequence[str]]) -> dict[Column, int]:
    from rich.cells import cell_len

    return {column: max(map(cell_len, (column.heading, *texts))) for column, texts in cells.items()}


def _total(widths: Mapping[Column, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)


def _widths(cells: Mapping[Column, Sequence[str]], width: int) -> dict[Column, int]:
    """What each column gets that stays."""
    widths = {column: min(natural, width) for column, natural in _natural(cells).items()}
    for column in reversed([column for column in widths if column.is_spare]):
        if _total(widths | _narrowed(widths, Kind.TEXT, Kind.NAME)) > width:
            del widths[column]
    for least, kind in product((_NARROW, _LEAST), (Kind.TEXT, Kind.NAME)):
        _give(widths, kind, least, width)
    _give(widths, Kind.ID, _LEAST, width)
    while len(widths) > 1 and _total(widths) > width:
        widths.popitem()
    return widths


def _narrowed(widths: Mapping[Column, int], *kinds: Kind) -> dict[Column, int]:
    """How narrow the columns of these kinds become before anything else gives way."""
    return {column: min(given, _NARROW) for column, given in widths.items() if column.kind in kinds}


def _give(widths: dict[Column, int], kind: Kind, least: int, width: int) -> None:
    """The widest of a kind first."""
    while _total(widths) > width:
        able = [column for column in widths if column.kind is kind and widths[column] > least]
        if not able:
            return
        widths[max(able, key=lambda column: widths[column])] -= 1


def _row(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> Iterator[str]:
    parts = [_parts(*each) for each in zip(columns, widths, cells, strict=True)]
    for index in range(max(map(len, parts))):
        yield _line(columns, widths, [each[index] if index < len(each) else "" for each in parts])


def _parts(column: Column, width: int, text: str) -> list[str]:
    return [cut(text, width)] if column.kind is Kind.TEXT else folded(text, width)


def _line(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> str:
    from rich.cells import cell_len, set_cell_size

    padded = []
    for column, width, cell in zip(columns, widths, cells, strict=True):
        missing = " " * (width - cell_len(cell))
        padded.append(missing + cell if column.kind is Kind.FIGURE else set_cell_size(cell, width))
    return _GAP.join(padded).rstrip()


def cut(text: str, width: int) -> str:
    """The text, or its beginning and an ellipsis."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def folded(text: str, width: int) -> list[str]:
    """In lines, between words where that is possible."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.text import Text

    if cell_len(text) <= width:
        return [text]
    return [part.plain.rstrip() for part in Text(text).wrap(Console(width=width), width, overflow="fold")]


def _plain(record: Mapping[str, Any], column: Column) -> str:
    """As it is, in one line, without what would move the cursor of a terminal."""
    value = record.get(column.name)
    if isinstance(value, list | tuple):
        text = ", ".join(map(str, value))
    else:
        text = "" if value is None else labels_shown(value) if isinstance(value, Mapping) else str(value)
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


_TOLD: Mapping[Kind, Callable[[datetime, datetime], str]] = {
    Kind.MOMENT: relative,
    Kind.INSTANT: lambda moment, _now: short_iso(moment),
}


def _told(record: Mapping[str, Any], column: Column, now: datetime) -> str:
    text = _plain(record, column)
    tell = _TOLD.get(column.kind)
    return tell(datetime.fromisoformat(text), now) if tell and text else text


def labels_shown(labels: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(labels.items()))
