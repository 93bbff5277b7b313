"""`python -m tests.chaos.show FILE...`: what the rounds in these files showed, one line a fault, in Markdown.

Only rounds that count are in it; what kept one from counting is in the files.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

_HEAD = ("fault", "rounds", "lasted, s", "late until, s (median, most)", "most late, s", "made again: most, allowed")
Row = dict[str, Any]


def read(files: Iterable[Path]) -> list[Row]:
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def by_fault(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.get("counts"):
            found[row["fault"]].append(row)
    return found


def line(fault: str, rows: Sequence[Row]) -> tuple[str, ...]:
    lasted_s = [row["lasted_ms"] / 1000 for row in rows]
    late_s = [row["recovered_ms"] / 1000 for row in rows]
    worst = max(rows, key=lambda row: int(row["duplicates"]))
    return (
        fault,
        str(len(rows)),
        f"{min(lasted_s):.1f} to {max(lasted_s):.1f}",
        f"{statistics.median(late_s):.1f}, {max(late_s):.1f}",
        f"{max(row['most_late_ms'] for row in rows) / 1000:.1f}",
        f"{worst['duplicates']}, {worst['allowed']}",
    )


def table(rows: Iterable[Row]) -> Iterator[str]:
    for cells in (_HEAD, ("---",) * len(_HEAD), *(line(*each) for each in by_fault(rows).items())):
        yield f"| {' | '.join(cells)} |"


def main() -> int:
    if not (files := [Path(name) for name in sys.argv[1:]]):
        print(__doc__, file=sys.stderr)
        return 2
    rows = read(files)
    print("\n".join(table(rows)))
    for row in rows:
        if "holds" in row:
            print(json.dumps(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
