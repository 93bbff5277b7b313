"""Between row groups and the rows of the table: columns to values and back.

What the tasks of one message share (template) is written with each of them, as the table has a row for each task; when
it is read, equal texts become one template again.

A place in the table is one number as well: between two pages of a scan the store keeps nothing in mind. It is negative.
A cursor says that everything up to it has been read, for ever; a place only where this scan goes on.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from timerd.model.codec import dump_json
from timerd.model.columns import Columns, starts
from timerd.model.identity import PREFIX_BYTES, RowKey
from timerd.model.partition import Partition
from timerd.model.rows import PREFIX, ROW, RowGroup, empty_group, single_row
from timerd.model.task import NO_EXTRA, Extra, Template
from timerd.ports import Mark, MarkKind

# Larger than every kind of mark, so that the mark is read before the task.
TASK_KIND = 100
# A larger body lies in a column of its own, which scans do not read: a page is bounded in bytes.
INLINE_BYTES = 2_048
# What a row weighs besides its body, about.
ROW_BYTES = 200
_PLACE = struct.Struct(">q16sqb")
_BIGINT = struct.Struct(">q")
_INT = struct.Struct(">i")
_SMALLINT = struct.Struct(">h")
_INDEX = struct.Struct(">I")
_DIGEST = np.dtype([("prefix", PREFIX), ("index", ">u4")])
RowPlace = tuple[int, bytes, int, int]


class Shape(IntEnum):
    """Which columns an INSERT names. Most rows are PLAIN: due at their position, without flags or extras; what is not
    named costs neither this process nor the nodes anything."""

    PLAIN = 0
    WHOLE = 1
    LARGE = 2


class Written(NamedTuple):
    """The values of one INSERT as bytes of the native protocol: the driver would spend most of a row's time on them."""

    shape: Shape
    size_bytes: int
    values: list[bytes]


_SHAPES = tuple(Shape)
_TASK_KIND = bytes((TASK_KIND,))


class TaskRow(NamedTuple):
    """As it is read. `body` is None where it was not asked for, or is large; the others where they were not written."""

    position_ms: int
    digest: bytes
    version: int
    kind: int
    written: int
    fire_at_ms: int | None
    flags: int | None
    template: bytes
    extra: bytes | None
    length: int
    value: bytes | None
    body: bytes | None

    @property
    def key(self) -> RowKey:
        return RowKey(self.position_ms, self.digest, self.version)

    @property
    def is_large(self) -> bool:
        return self.length > INLINE_BYTES


def written_rows(partition: Partition, group: RowGroup, number: int) -> Iterator[Written]:
    """`number` tells this writing from others of the same rows."""
    head = [_BIGINT.pack(partition.scope), _BIGINT.pack(partition.bucket_ms), _INT.pack(partition.shard)]
    tail = [_TASK_KIND, _BIGINT.pack(number)]
    texts = [_template_text(template) for template in group.templates]
    extras = [b"", *(dump_json(extra.to_json()) for extra in group.extras)]
    payloads = memoryview(group.payloads)
    for shape, key, columns, template, extra, offset, length in _one(group) if len(group) == 1 else _many(group):
        fire_at, flags, size = columns
        last = [texts[template], size, bytes(payloads[offset : offset + length])]
        facts = last if shape is Shape.PLAIN else [fire_at, flags, extras[extra], *last]
        size_bytes = ROW_BYTES + len(texts[template]) + len(extras[extra]) + length
        yield Written(shape, size_bytes, [*head, *key, *tail, *facts])


_Wired = tuple[bytes, bytes, bytes]
# Shape; position, digest, version; fire_at, flags, length as bytes; template, extra, offset, length as numbers.
_Row = tuple[Shape, _Wired, _Wired, int, int, int, int]


def _many(group: RowGroup) -> Iterator[_Row]:
    columns = group.columns
    keys = zip(_wire(columns["position_ms"], 8), group.digests(), _wire(columns["version"], 8), strict=True)
    rest = zip(_wire(columns["fire_at_ms"], 8), _wire(columns["flags"], 2), _wire(columns["length"], 4), strict=True)
    named = (columns[name].tolist() for name in ("template", "extra", "offset", "length"))
    return zip(_shapes(columns), keys, rest, *named, strict=True)


def _one(group: RowGroup) -> Iterator[_Row]:
    """The common case of singles, without numpy."""
    position_ms, fire_at_ms, prefix, index, version, template, extra, offset, length, flags = group.columns[0].item()
    if length > INLINE_BYTES:
        shape = Shape.LARGE
    else:
        shape = Shape.WHOLE if extra or flags or fire_at_ms != position_ms else Shape.PLAIN
    key = _BIGINT.pack(position_ms), group.prefixes[prefix].tobytes() + _INDEX.pack(index), _BIGINT.pack(version)
    columns = _BIGINT.pack(fire_at_ms), _SMALLINT.pack(flags), _INT.pack(length)
    yield shape, key, columns, template, extra, offset, length


def _shapes(columns: Columns) -> list[Shape]:
    is_plain = columns["fire_at_ms"] == columns["position_ms"]
    is_plain &= (columns["flags"] == 0) & (columns["extra"] == 0)
    shapes = np.where(columns["length"] > INLINE_BYTES, Shape.LARGE, np.where(is_plain, Shape.PLAIN, Shape.WHOLE))
    return [_SHAPES[shape] for shape in shapes.tolist()]


def _wire(values: Columns, width: int) -> list[bytes]:
    """Integers as the protocol has them: big-endian, of the width of their column's type."""
    raw = values.astype(f">i{width}").tobytes()
    return [raw[at : at + width] for at in range(0, len(raw), width)]


def to_group(rows: Sequence[TaskRow], bodies: Sequence[bytes] | None) -> RowGroup:
    """Rows in the order of the table; `bodies` is None where only keys were asked for."""
    if not rows:
        return empty_group()
    if len(rows) == 1 and bodies:
        return _single(rows[0], bodies[0])
    columns = np.zeros(len(rows), ROW)
    digests = np.frombuffer(b"".join([row.digest for row in rows]), _DIGEST)
    prefixes: dict[bytes, int] = {}
    templates: dict[bytes, int] = {}
    columns["index"] = digests["index"]
    columns["position_ms"] = [row.position_ms for row in rows]
    columns["fire_at_ms"] = [row.position_ms if row.fire_at_ms is None else row.fire_at_ms for row in rows]
    columns["version"] = [row.version for row in rows]
    columns["flags"] = [row.flags or 0 for row in rows]
    columns["prefix"] = [prefixes.setdefault(row.digest[:PREFIX_BYTES], len(prefixes)) for row in rows]
    columns["template"] = [templates.setdefault(row.template, len(templates)) for row in rows]
    columns["length"] = [row.length for row in rows]
    columns["offset"] = starts(columns["length"])
    noted = [(at, row.extra) for at, row in enumerate(rows) if row.extra]
    for place, (at, _) in enumerate(noted):
        columns["extra"][at] = place + 1
    table = np.frombuffer(b"".join(prefixes), PREFIX)
    extras = [Extra.from_json(json.loads(text)) for _, text in noted]
    return RowGroup(columns, table, list(map(_template, templates)), b"".join(bodies or ()), extras)


def _single(row: TaskRow, body: bytes) -> RowGroup:
    """What a look-up brings, many times cheaper than by columns."""
    fire_at_ms = row.position_ms if row.fire_at_ms is None else row.fire_at_ms
    extra = Extra.from_json(json.loads(row.extra)) if row.extra else NO_EXTRA
    return single_row(row.key, fire_at_ms, _template(row.template), body, extra, row.flags or 0)


def to_mark(partition: Partition, row: TaskRow) -> Mark:
    return Mark(partition, row.key, MarkKind(row.kind), row.value or b"")


@lru_cache(maxsize=1024)
def _template_text(template: Template) -> bytes:
    return dump_json(template.to_json())


@lru_cache(maxsize=1024)
def _template(text: bytes) -> Template:
    return Template.from_json(json.loads(text))


def cursor_after(place: RowPlace | tuple[()]) -> int:
    """Less than 0; the next page begins behind (position_ms, digest, version, kind)."""
    return -int.from_bytes(b"\1" + _PLACE.pack(*place)) if place else 0


def place_of(cursor: int) -> RowPlace | tuple[()]:
    """Nothing where the scan begins."""
    if not cursor:
        return ()
    position_ms, digest, version, kind = _PLACE.unpack((-cursor).to_bytes(_PLACE.size + 1)[1:])
    return position_ms, digest, version, kind
