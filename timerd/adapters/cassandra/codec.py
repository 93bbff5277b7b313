"""Between row groups and the rows of the table: columns to values and back.

What the tasks of one message share (template) is written with each of them, as the table has a row for each task; when
it is read, equal texts become one template again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from timerd.model.columns import starts
from timerd.model.identity import PREFIX_BYTES, RowKey
from timerd.model.partition import Partition
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.task import Extra, Template, dump_json
from timerd.ports import Mark, MarkKind

# Larger than every kind of mark, so that the mark is read before the task.
TASK_KIND = 100
# A larger body lies in a column of its own, which scans do not read: a page is bounded in bytes.
INLINE_BYTES = 2_048
# What a row weighs besides its body, about.
ROW_BYTES = 200
_DIGEST = np.dtype([("prefix", PREFIX), ("index", ">u4")])


class Written(NamedTuple):
    """The values of one INSERT, in the order of INSERTS[is_large]."""

    is_large: bool
    size_bytes: int
    values: tuple[object, ...]


class TaskRow(NamedTuple):
    """As it is read; `body` is None where it was not asked for, or is large."""

    position_ms: int
    digest: bytes
    version: int
    kind: int
    written: int
    fire_at_ms: int
    flags: int
    template: bytes
    extra: bytes
    length: int
    value: bytes | None
    body: bytes | None

    @property
    def key(self) -> RowKey:
        return RowKey(self.position_ms, self.digest, self.version)

    @property
    def is_large(self) -> bool:
        return self.length > INLINE_BYTES


def written_rows(partition: Partition, group: RowGroup, next_written: Callable[[], int]) -> Iterator[Written]:
    templates = [_template_text(template) for template in group.templates]
    extras = [b"", *(dump_json(extra.to_json()) for extra in group.extras)]
    columns = group.columns
    named = (columns[name].tolist() for name in ("fire_at_ms", "flags", "template", "extra", "offset", "length"))
    for key, fire_at_ms, flags, template, extra, offset, length in zip(group.keys(), *named, strict=True):
        body = bytes(group.payloads[offset : offset + length])
        facts = (fire_at_ms, flags, templates[template], extras[extra], length, body)
        size_bytes = ROW_BYTES + len(templates[template]) + len(extras[extra]) + length
        values = (*partition, *key, TASK_KIND, next_written(), *facts)
        yield Written(length > INLINE_BYTES, size_bytes, values)


def to_group(rows: Sequence[TaskRow], bodies: Sequence[bytes] | None) -> RowGroup:
    """Rows in the order of the table; `bodies` is None where only keys were asked for."""
    columns = np.zeros(len(rows), ROW)
    digests = np.frombuffer(b"".join([row.digest for row in rows]), _DIGEST)
    prefixes: dict[bytes, int] = {}
    templates: dict[bytes, int] = {}
    columns["index"] = digests["index"]
    columns["position_ms"] = [row.position_ms for row in rows]
    columns["fire_at_ms"] = [row.fire_at_ms for row in rows]
    columns["version"] = [row.version for row in rows]
    columns["flags"] = [row.flags for row in rows]
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


def to_mark(partition: Partition, row: TaskRow) -> Mark:
    return Mark(partition, row.key, MarkKind(row.kind), row.value or b"")


@lru_cache(maxsize=1024)
def _template_text(template: Template) -> bytes:
    return dump_json(template.to_json())


@lru_cache(maxsize=1024)
def _template(text: bytes) -> Template:
    return Template.from_json(json.loads(text))
