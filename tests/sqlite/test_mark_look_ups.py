"""Looking for the marks of one row must not read those of its whole partition: a cancel of many would be quadratic."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from timerd.adapters.sqlite.marks import OF_ROW, marked_query
from timerd.adapters.sqlite.schema import connect, migrate


@pytest.mark.parametrize(
    ("query", "asked"), [(OF_ROW, (0, 0, 0, 0, b"")), (marked_query(2), (0, b"", 1, b"", 0, 0, 0))], ids=["one", "many"]
)
def test_the_marks_of_a_row_are_found_by_the_row(tmp_path: Path, query: str, asked: tuple[object, ...]) -> None:
    path = tmp_path / "timerd.db"
    with closing(connect(path, "full")) as connection:
        migrate(connection, path)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", asked).fetchall()
    # The connection hands text over as bytes.
    searches = [bytes(row[3]).decode() for row in plan if b"SEARCH" in row[3]]
    by_row = "INDEX marks_by_row (scope=? AND bucket=? AND shard=? AND position_ms=? AND digest=?)"
    assert [search.replace("COVERING ", "") for search in searches] == [f"SEARCH marks USING {by_row}"]
