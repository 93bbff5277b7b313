"""A group of few rows without numpy, whose calls cost the same for one row as for a hundred.

A commit that is spread over a day makes hundreds of such groups, and one of single calls a few. What is written is what
`RowGroup.compact` and `pack_keys` would write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from timerd.model.columns import pack_few
from timerd.model.rows import RowGroup, keys_of
from timerd.model.task import Extra, Template

# Up to here it is the faster way.
MOST_ROWS = 16
_FAR_MS = 1 << 62
Row = tuple[int, ...]


class FewRows(NamedTuple):
    """Sorted by position."""

    first_ms: int
    last_ms: int
    keys: bytes
    payloads: bytes


def few_rows(groups: Sequence[RowGroup]) -> FewRows | None:
    """All rows of these groups as one. None: they are too many, or their instants so far apart that numbers of 64 bits
    wrap."""
    count = sum(map(len, groups))
    if not 0 < count <= MOST_ROWS:
        return None
    listed = [(row, group) for group in groups for row in group.columns.tolist()]
    listed.sort(key=_position)
    tables = _Tables()
    columns = list(zip(*[tables.rewritten(row, group) for row, group in listed], strict=True))
    positions, delays = columns[:2]
    if min(positions[0], *delays) < -_FAR_MS or max(positions[-1], *delays) > _FAR_MS:
        return None
    keys = keys_of(count, list(tables.templates), tables.extras, list(tables.prefixes), pack_few(columns))
    return FewRows(positions[0], positions[-1], keys, b"".join(tables.payloads))


def _position(listed: tuple[Row, RowGroup]) -> int:
    return listed[0][0]


class _Tables:
    """What the rows have in common, in the order of its first use."""

    def __init__(self) -> None:
        self.prefixes: dict[bytes, int] = {}
        self.templates: dict[Template, int] = {}
        self.extras: list[Extra] = []
        self.payloads: list[bytes | memoryview] = []
        self._begin = 0

    def rewritten(self, row: Row, group: RowGroup) -> Row:
        """In the order in which columns are written."""
        position_ms, fire_at_ms, prefix, index, version, kind, extra, begin, size, flags = row
        prefix = self.prefixes.setdefault(bytes(group.prefixes[prefix]), len(self.prefixes))
        kind = self.templates.setdefault(group.templates[kind], len(self.templates))
        if extra:
            self.extras.append(group.extras[extra - 1])
            extra = len(self.extras)
        self.payloads.append(group.payloads[begin : begin + size])
        begin, self._begin = self._begin, self._begin + size
        return position_ms, fire_at_ms - position_ms, prefix, index, version, kind, extra, size, begin, flags
