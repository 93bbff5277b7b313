"""A group of few rows is written as a large one is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.row_rig import ROWS, Row, one, rows_of
from timerd.adapters.sqlite.groups import join_sorted
from timerd.model.few_rows import MOST_ROWS, few_rows
from timerd.model.identity import RowKey
from timerd.model.rows import RowGroup, concat
from timerd.model.task import NO_EXTRA, Template


def cut(rows: list[Row], at: int) -> list[RowGroup]:
    """Two groups, each with tables of its own and perhaps of more than it uses."""
    return [concat([one(row) for row in part]) for part in (rows[:at], rows[at:]) if part]


@given(st.lists(ROWS, min_size=1, max_size=MOST_ROWS), st.integers(0, MOST_ROWS), st.integers(0, 2))
def test_they_are_written_as_the_general_way_does(rows: list[Row], at: int, left_out: int) -> None:
    groups = cut(rows, at)
    if len(groups[0]) > left_out:
        # Its tables hold what no row of it uses any more.
        groups[0] = groups[0].select(slice(left_out, None))
    general = join_sorted(groups)
    few = few_rows(groups)
    if few is None:
        assert max(abs(time) for row in rows for time in (row.key.position_ms, row.fire_at_ms)) > 1 << 61
        return
    assert few.payloads == general.payloads
    if len(set(general.prefixes.tolist())) == len(general.prefixes):
        # The general way does not see that two groups brought the same one.
        assert few.keys == general.pack_keys()
    assert [few.first_ms, few.last_ms] == general.columns["position_ms"][[0, -1]].tolist()
    assert rows_of(RowGroup.unpack(few.keys, few.payloads)) == rows_of(general)


def test_many_rows_have_a_way_of_their_own() -> None:
    row = one(Row(RowKey(5, bytes(16), 0), 5, Template("d", "q"), NO_EXTRA, b"x", 0))
    assert [count for count in range(MOST_ROWS + 3) if few_rows([row] * count)] == [*range(1, MOST_ROWS + 1)]
