"""Rows, written by hand."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from timerd.model.identity import RowKey
from timerd.model.rows import RowGroup, single_row
from timerd.model.task import NO_EXTRA, Extra, RetryPolicy, Template

I64 = st.integers(-(2**63), 2**63 - 1)
U32 = st.integers(0, 2**32 - 1)
TIMES = st.one_of(st.integers(0, 300_000), st.integers(1_700_000_000_000, 1_700_086_400_000), I64)
TEMPLATES = st.sampled_from(
    [Template("d", "q"), Template("d", "q", 3), Template("ü", "r", labels=(("a", "b"),), retry=RetryPolicy(3))]
)
EXTRAS = st.one_of(st.just(NO_EXTRA), st.builds(Extra, key=st.text(max_size=5), lease_until_ms=st.integers(0, 2**60)))
PAYLOADS = st.one_of(st.binary(max_size=12), st.just(b"four"))


class Row(NamedTuple):
    key: RowKey
    fire_at_ms: int
    template: Template
    extra: Extra
    payload: bytes
    flags: int


KEYS = st.builds(RowKey, TIMES, st.binary(min_size=16, max_size=16), U32)
ROWS = st.builds(Row, KEYS, TIMES, TEMPLATES, EXTRAS, PAYLOADS, st.integers(0, 255))


def one(row: Row) -> RowGroup:
    return single_row(row.key, row.fire_at_ms, row.template, row.payload, row.extra, row.flags)


def rows_of(group: RowGroup) -> list[Row]:
    return [
        Row(
            key,
            int(group.columns["fire_at_ms"][n]),
            group.template_of(n),
            group.extra_of(n),
            group.payload(n),
            int(group.columns["flags"][n]),
        )
        for n, key in enumerate(group.keys())
    ]
