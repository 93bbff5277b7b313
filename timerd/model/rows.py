"""Row groups: tasks as columns plus one payload arena. The same layout on disk, in memory and between the machines.

A Python object per task is a dead end at millions of tasks (1.6-1.9 GB and 0.7 s GC pauses for 3.5 M; columns: 0.9 GB,
8 ms), so a task is a row of a structured array, and what many tasks share (message prefix, template) is stored once.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from timerd.model.codec import dump_json
from timerd.model.columns import Columns, pack_columns, pieces, starts, unpack_columns
from timerd.model.errors import NotUnderstood
from timerd.model.identity import PREFIX_BYTES, RowKey, row_keys
from timerd.model.task import NO_EXTRA, Extra, Template

# Flags of a row.
FLAG_MOVED_IN = 1  # the target of a move: fires only where `moves` says that the task lives here
FLAG_CARRIED = 2  # written by a carry: retry, guard, hand-over
FLAG_LATE = 4  # its fire_at had passed when it was scheduled
FLAG_ORDERED = 8  # it has an ordering key, which stands in its extra
# Later releases may say more of a task in these, so they go where it goes; in the others of a row.
FLAGS_OF_TASK = 0b0011_1000
# What these wrote is no repeat of a call, and is found by the way that it went.
WRITTEN_BY_HOLDERS = FLAG_CARRIED | FLAG_MOVED_IN

ROW = np.dtype(
    [
        ("position_ms", "<i8"),
        ("fire_at_ms", "<i8"),
        ("prefix", "<u4"),  # index into `prefixes`
        ("index", "<u4"),  # of the task in its message
        ("version", "<u4"),
        ("template", "<u4"),  # index into `templates`
        ("extra", "<u4"),  # index into `extras` + 1; 0 = none
        ("offset", "<u4"),  # of the payload in the arena
        ("length", "<u4"),
        ("flags", "u1"),
    ]
)
PREFIX = np.dtype(f"V{PREFIX_BYTES}")
DIGEST = np.dtype([("prefix", PREFIX), ("index", ">u4")])
_HEAD = struct.Struct("<III")
# Fewer are cheaper one by one.
MANY_PIECES = 128
_RECORD = struct.Struct("<qqIIIIIIIB")


def record(*fields: int) -> Columns:
    """(1,) of ROW, of its fields in their order. numpy's own way takes four times as long."""
    return np.frombuffer(bytearray(_RECORD.pack(*fields)), ROW)


@dataclass(slots=True)
class RowGroup:
    """`columns` (n,) of ROW, sorted or not; `payloads` the arena that offset and length point into."""

    columns: Columns
    prefixes: Columns
    templates: list[Template]
    payloads: bytes | memoryview
    extras: list[Extra]
    # The store's name for the rows written together; 0 = none.
    source: int = 0

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def size_bytes(self) -> int:
        """What it takes in memory, the arena included."""
        return self.columns.nbytes + len(self.payloads) + self.prefixes.nbytes + 200 * len(self.extras)

    def select(self, rows: npt.NDArray[np.intp] | slice) -> RowGroup:
        """Some rows, sharing arena and tables."""
        # `take` copies records whole, ten times as fast as an index, which copies them field by field.
        columns = self.columns[rows] if isinstance(rows, slice) else self.columns.take(rows)
        return RowGroup(columns, self.prefixes, self.templates, self.payloads, self.extras, self.source)

    def packed_digests(self) -> Columns:
        """(n,) of DIGEST."""
        out = np.empty(len(self.columns), DIGEST)
        out["prefix"] = self.prefixes.take(self.columns["prefix"])
        out["index"] = self.columns["index"]
        return out

    def digests(self) -> list[bytes]:
        """16 bytes for each row: prefix and index."""
        return pieces(self.packed_digests().tobytes(), DIGEST.itemsize)

    def keys(self) -> list[RowKey]:
        columns = self.columns
        return list(row_keys(columns["position_ms"].tolist(), self.digests(), columns["version"].tolist()))

    def payload(self, row: int) -> bytes:
        start = int(self.columns["offset"][row])
        return bytes(self.payloads[start : start + int(self.columns["length"][row])])

    def template_of(self, row: int) -> Template:
        return self.templates[int(self.columns["template"][row])]

    def expiry_ms(self, row: int) -> int:
        """From when on it is not delivered; 0: never."""
        return self.template_of(row).expiry_ms(int(self.columns["fire_at_ms"][row]))

    def deadline_ms(self, row: int) -> int:
        """When it is worth nothing any more, also in a worker's hands; 0: never."""
        return self.template_of(row).deadline_ms(int(self.columns["fire_at_ms"][row]))

    def extra_of(self, row: int) -> Extra:
        at = int(self.columns["extra"][row])
        return self.extras[at - 1] if at else NO_EXTRA

    def lacking_rows(self) -> dict[int, frozenset[str]]:
        """Row -> what this release would have to understand to deliver it (model/codec.py). Nearly always empty."""
        columns, templates, extras = self.columns, self.templates, self.extras
        kinds = {n: t.lacks for n in _used(columns["template"], len(templates)) if (t := templates[n]).has_kept}
        notes = {n: e.lacks for n in _used(columns["extra"], len(extras) + 1) if n and (e := extras[n - 1]).kept}
        if not kinds and not notes:
            return {}
        nothing = frozenset[str]()
        found = zip(columns["template"].tolist(), columns["extra"].tolist(), strict=True)
        lacks = ((row, kinds.get(kind, nothing) | notes.get(note, nothing)) for row, (kind, note) in enumerate(found))
        return {row: each for row, each in lacks if each}

    def one(self, row: int) -> RowGroup:
        """A compact group of one row; many times cheaper than `compact` of a selection."""
        # As a tuple: to read and write the fields of a record one by one takes twice as long and more.
        position_ms, fire_at_ms, prefix, index, version, kind, extra, start, size, flags = self.columns[row].item()
        extras = [self.extras[extra - 1]] if extra else []
        columns = record(position_ms, fire_at_ms, 0, index, version, 0, len(extras), 0, size, flags)
        payload = bytes(self.payloads[start : start + size])
        prefixes = self.prefixes[prefix : prefix + 1]
        return RowGroup(columns, prefixes, [self.templates[kind]], payload, extras, self.source)

    def compact(self) -> RowGroup:
        """A copy that holds only what its rows use: their payloads in row order, their prefixes, templates, extras."""
        if len(self.columns) == 1:
            plain = len(self.prefixes) == len(self.templates) == 1 and not self.extras
            return self._compact_one() if plain else self.one(0)
        out = self.trimmed()
        out.payloads = gather(self.payloads, out.columns["offset"], out.columns["length"])
        out.columns["offset"] = starts(out.columns["length"])
        return out

    def trimmed(self) -> RowGroup:
        """The same rows, with prefixes, templates and extras of just what they use. The arena is shared."""
        columns = self.columns.copy()
        prefixes, templates, extras = self.prefixes, self.templates, self.extras
        if len(prefixes) > 1:
            used, columns["prefix"] = _in_order_of_use(columns["prefix"], len(prefixes))
            prefixes = prefixes[used]
        if len(templates) > 1:
            kinds, columns["template"] = _in_order_of_use(columns["template"], len(templates))
            templates = [templates[kind] for kind in kinds.tolist()]
        if extras:
            extras = [extras[at - 1] for at in columns["extra"].tolist() if at]
            columns["extra"] = np.where(columns["extra"] > 0, np.cumsum(columns["extra"] > 0), 0)
        return RowGroup(columns, prefixes, list(templates), self.payloads, extras, self.source)

    def _compact_one(self) -> RowGroup:
        columns = self.columns.copy()
        begin = int(columns["offset"][0])
        payloads = bytes(self.payloads[begin : begin + int(columns["length"][0])])
        columns["offset"] = 0
        return RowGroup(columns, self.prefixes, self.templates, payloads, [], self.source)

    def pack_keys(self) -> bytes:
        """Everything but the payloads."""
        prefixes, columns = [self.prefixes.tobytes()], pack_columns(self.columns)
        return keys_of(len(self.columns), self.templates, self.extras, prefixes, columns)

    @classmethod
    def unpack(cls, keys: bytes, payloads: bytes | memoryview) -> RowGroup:
        """The inverse of `pack_keys`; `payloads` may be empty where only keys were read."""
        count, prefix_count, notes_bytes = _HEAD.unpack_from(keys)
        at = _HEAD.size + notes_bytes
        notes = bytes(keys[_HEAD.size : at])
        templates, extras = _known_notes(notes) if notes_bytes <= _SHORT_NOTES_BYTES else _parse_notes(notes)
        prefixes = np.frombuffer(keys, PREFIX, prefix_count, at)
        columns = np.zeros(count, ROW)
        unpack_columns(keys, at + prefixes.nbytes, columns)
        return cls(columns, prefixes, list(templates), payloads, list(extras))


# Up to here plain Python is faster than numpy's calls.
_FEW_ROWS = 32
# Notes of groups of few templates and no extras repeat; those of many rows with extras do not.
_SHORT_NOTES_BYTES = 1024


def _parse_notes(notes: bytes) -> tuple[list[Template], list[Extra]]:
    templates, extras, *more = json.loads(notes)
    if more:
        raise NotUnderstood("A group of rows", ["another layout"])
    return [Template.from_json(t) for t in templates], [Extra.from_json(e) for e in extras]


_known_notes = lru_cache(maxsize=1024)(_parse_notes)


@lru_cache(maxsize=1024)
def _template_text(template: Template) -> bytes:
    return dump_json(template.to_json())


def _used(indexes: Columns, table: int) -> Iterable[int]:
    """Indexes into a table of that length, all that are used among them: the many parts of a message share theirs."""
    return range(table) if table <= len(indexes) else indexes.tolist()


def _in_order_of_use(indexes: Columns, table: int) -> tuple[Columns, Columns]:
    """The distinct indexes into a table of that length, by their first use, and for each row its place among them."""
    if len(indexes) <= _FEW_ROWS:
        listed = indexes.tolist()
        renames = {index: n for n, index in enumerate(dict.fromkeys(listed))}
        return np.array(list(renames), np.uint32), np.array([renames[index] for index in listed], np.uint32)
    if table > 16 * len(indexes):
        found, indexes = np.unique(indexes, return_inverse=True)
        order, places = _in_order_of_use(indexes, len(found))
        return found[order], places
    # Of several values for one place the last one stays, so from the end the first use does.
    first = np.full(table, len(indexes))
    first[indexes[::-1]] = np.arange(len(indexes) - 1, -1, -1)
    used = np.flatnonzero(first < len(indexes)).astype(np.uint32)
    used = used[np.argsort(first[used])]
    renamed = np.empty(table, np.uint32)
    renamed[used] = np.arange(len(used), dtype=np.uint32)
    return used, renamed[indexes]


def gather(arena: bytes | memoryview, offsets: Columns, lengths: Columns) -> bytes:
    """The named pieces of an arena, joined in order; of many one slice where they already lie so."""
    if len(lengths) < MANY_PIECES or not len(arena):
        return _joined(arena, offsets, lengths)
    begin = offsets.astype(np.int64)
    total = int(lengths.sum(dtype=np.int64))
    if np.array_equal(begin - begin[0], starts(lengths)):
        return bytes(arena[int(begin[0]) : int(begin[0]) + total])
    length = int(lengths[0])
    if length and bool((lengths == length).all()):
        pieces = np.ndarray((len(arena) - length + 1,), f"V{length}", arena, strides=(1,))
        return pieces[begin].tobytes()
    return _joined(arena, offsets, lengths)


def _joined(arena: bytes | memoryview, offsets: Columns, lengths: Columns) -> bytes:
    view = memoryview(arena)
    return b"".join([view[at : at + size] for at, size in zip(offsets.tolist(), lengths.tolist(), strict=True)])


def keys_of(
    count: int, templates: Sequence[Template], extras: Sequence[Extra], prefixes: Sequence[bytes], columns: bytes
) -> bytes:
    """What `RowGroup.unpack` reads; the prefixes one by one or all in one piece."""
    # Rows that were carried together have the same one.
    distinct = {id(extra): extra for extra in extras}
    written = {at: dump_json(extra.to_json()) for at, extra in distinct.items()}
    texts = b",".join([written[id(extra)] for extra in extras])
    notes = b"[[%b],[%b]]" % (b",".join(map(_template_text, templates)), texts)
    table = b"".join(prefixes)
    return b"".join((_HEAD.pack(count, len(table) // PREFIX_BYTES, len(notes)), notes, table, columns))


def empty_group() -> RowGroup:
    return RowGroup(np.empty(0, ROW), np.empty(0, PREFIX), [], b"", [])


def concat(groups: Sequence[RowGroup]) -> RowGroup:
    """One group with its own tables and an arena of just what its rows use, in row order. Equal templates are merged;
    of groups that share their tables (the parts of one message), tables and arena are taken once."""
    if len(groups) == 1:
        return groups[0]
    if not groups:
        return empty_group()
    # numpy's own concatenation of structured arrays spends 20 us on each of them.
    columns = np.frombuffer(bytearray(b"".join([g.columns.tobytes() for g in groups])), ROW)
    families = _families(groups)
    payloads = _join_payloads(columns, families)
    columns["offset"] = starts(columns["length"])
    counts = [count for _, count in families]
    columns["prefix"] += _shifts([len(tables.prefixes) for tables, _ in families], counts)
    if any(tables.extras for tables, _ in families):
        shifts = _shifts([len(tables.extras) for tables, _ in families], counts)
        columns["extra"] += np.where(columns["extra"] > 0, shifts, np.uint32(0))
    templates = _join_templates(columns, families)
    prefixes = np.frombuffer(b"".join([tables.prefixes.tobytes() for tables, _ in families]), PREFIX)
    return RowGroup(columns, prefixes, templates, payloads, [e for tables, _ in families for e in tables.extras])


def _join_payloads(columns: Columns, families: list[tuple[RowGroup, int]]) -> bytes:
    offsets, lengths = columns["offset"], columns["length"]
    pieces: list[bytes | memoryview] = []
    at = 0
    for tables, count in families:
        if count == 1:
            begin = int(offsets[at])
            pieces.append(tables.payloads[begin : begin + int(lengths[at])])
        else:
            pieces.append(gather(tables.payloads, offsets[at : at + count], lengths[at : at + count]))
        at += count
    return b"".join(pieces)


def _join_templates(columns: Columns, families: list[tuple[RowGroup, int]]) -> list[Template]:
    """The templates of all, each once; the rows are told its new place."""
    templates: dict[Template, int] = {}
    known: dict[int, list[int]] = {}
    at = 0
    for tables, count in families:
        renamed = known.get(id(tables.templates))
        if renamed is None:
            renamed = known[id(tables.templates)] = [templates.setdefault(t, len(templates)) for t in tables.templates]
        if renamed != list(range(len(renamed))):
            part = columns["template"][at : at + count]
            part[:] = np.array(renamed, np.uint32)[part]
        at += count
    return list(templates)


def _shifts(sizes: list[int], counts: list[int]) -> Columns:
    """For each row how far the tables of its family are shifted by those before."""
    return np.repeat(starts(np.array(sizes)).astype(np.uint32), counts)


def _families(groups: Sequence[RowGroup]) -> list[tuple[RowGroup, int]]:
    """Neighbours that share tables and arena, as (one of them, rows of all)."""
    out: list[tuple[RowGroup, int]] = []
    last: RowGroup | None = None
    for g in groups:
        if (
            last is not None
            and g.payloads is last.payloads
            and g.prefixes is last.prefixes
            and g.templates is last.templates
            and g.extras is last.extras
        ):
            out[-1] = last, out[-1][1] + len(g)
        else:
            out.append((g, len(g)))
            last = g
    return out


def single_row(key: RowKey, fire_at_ms: int, template: Template, payload: bytes, extra: Extra, flags: int) -> RowGroup:
    """A group of one."""
    index = int.from_bytes(key.digest[PREFIX_BYTES:], "big")
    extras = [extra] if extra != NO_EXTRA else []
    columns = record(key.position_ms, fire_at_ms, 0, index, key.version, 0, len(extras), 0, len(payload), flags)
    return RowGroup(columns, np.frombuffer(key.digest[:PREFIX_BYTES], PREFIX), [template], payload, extras)
