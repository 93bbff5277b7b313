"""Ordering keys and limit keys of tasks that come as columns: a table of each, and for each task its place there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timerd.model.errors import Invalid
from timerd.model.ordering import ordered_extra
from timerd.model.rows import FLAG_ORDERED, RowGroup
from timerd.services.calls.fields import plain_text
from timerd.services.calls.templates import MAX_LIMIT_KEY_CHARS, MAX_ORDERING_KEY_CHARS, Common
from timerd.v1 import timer_service_pb2 as wire


class NamesOfRows(NamedTuple):
    """`names`: those that are in use; `of_row`: for each task its place among them."""

    names: Sequence[str]
    of_row: npt.NDArray[np.intp]


class ColumnKeys(NamedTuple):
    """None: all tasks have that of the template. `packed`: as the caller wrote them."""

    ordering: NamesOfRows | None
    limit: NamesOfRows | None
    packed: bytes

    def common_of(self, common: Common) -> Common:
        """By which is judged whether the tasks are taken in."""
        names = self.ordering.names if self.ordering is not None else ()
        return common._replace(ordering_key=common.ordering_key or next((each for each in names if each), ""))

    def give(self, rows: RowGroup, common: Common) -> None:
        """To all tasks of the message."""
        if self.limit is not None:
            rows.templates = [replace(common.template, limit_key=name) for name in self.limit.names]
            rows.columns["template"] = self.limit.of_row
        names, of_row = self.ordering or NamesOfRows([common.ordering_key], np.zeros(len(rows), np.intp))
        extras = {name: number for number, name in enumerate(filter(None, names), start=1)}
        rows.extras = list(map(ordered_extra, extras))
        places = np.array([extras.get(name, 0) for name in names])[of_row]
        rows.columns["extra"], rows.columns["flags"] = places, np.where(places > 0, FLAG_ORDERED, 0)


def keys_of_columns(columns: wire.TaskColumns, common: Common, count: int) -> ColumnKeys | None:
    """None: it names none, or there are no tasks, which is said elsewhere. Raises Invalid."""
    if not count or not (
        columns.ordering_key_of or columns.limit_key_of or columns.ordering_keys or columns.limit_keys
    ):
        return None
    ordering = _column("ordering_key", columns, common.ordering_key, count, MAX_ORDERING_KEY_CHARS)
    limit = _column("limit_key", columns, common.template.limit_key, count, MAX_LIMIT_KEY_CHARS)
    named = wire.TaskColumns(ordering_keys=columns.ordering_keys, limit_keys=columns.limit_keys)
    named.ordering_key_of.extend(columns.ordering_key_of)
    named.limit_key_of.extend(columns.limit_key_of)
    return ColumnKeys(ordering, limit, named.SerializeToString(deterministic=True))


def _column(name: str, columns: wire.TaskColumns, common: str, count: int, most_chars: int) -> NamesOfRows | None:
    given, places = getattr(columns, f"{name}s"), getattr(columns, f"{name}_of")
    table = [plain_text(each, most_chars, name, f"columns.{name}s[{at}]") for at, each in enumerate(given)]
    if not table and not places:
        return None
    if len(places) != count:
        raise Invalid(
            f"There are {len(places):,} {name}_of for {count:,} tasks: give one for each.", f"columns.{name}_of"
        )
    of_row = np.array(places[:], np.intp)
    if (most := int(of_row.max())) > len(table):
        raise Invalid(
            f"{name}_of names the place {most:,}, and {name}s has {len(table):,}: places count from 1, and 0 is what "
            "the template says.",
            f"columns.{name}_of",
        )
    used, of_used = np.unique(of_row, return_inverse=True)
    names = [common, *table]
    return NamesOfRows([names[place] for place in used.tolist()], of_used)
