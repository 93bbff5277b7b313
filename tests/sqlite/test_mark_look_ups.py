"""Looking for the marks of one row must not read those of its whole partition: a cancel of many would be quadratic."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from timerd.adapters.sqlite.marks import OF_ROW
from timerd.adapters.sqlite.schema import connect, migrate


def test_the_marks_of_a_row_are_found_by_the_row(tmp_path: Path) -> None:
    path = tmp_path / "timerd.db"
    with closing(connect(path, "full")) as connection:
        migrate(connection, path)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {OF_ROW}", (0, 0, 0, 0, b"")).fetchall()
    # The connection hands text over as bytes.
    searches = [bytes(row[3]).decode() for row in plan if b"SEARCH" in row[3]]
    assert searches == [
        "SEARCH marks USING INDEX marks_by_row (scope=? AND bucket=? AND shard=? AND position_ms=? AND digest=?)"
    ]
