"""`python -m tests.chaos.show [--docs] FILE...`: what the rounds in these files showed, one line a fault, in Markdown.

Only rounds that count are in it; what kept one from counting is in the files. With `--docs` the table goes into
docs/understand/benchmarks.md, between its two marks, and the time to recover into docs/plots/chaos.png.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.chaos.plot import draw

DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- chaos: begin -->\n", "<!-- chaos: end -->\n"
_HEAD = (
    "fault",
    "rounds",
    "deliveries, calls open at the least",
    "trace, at the least",
    "lasted, s",
    "late until, s (median, most)",
    "made again: most, of so many that may",
)
_BROKEN = (
    "early",
    "lost",
    "delivered_after_CANCELLED",
    "unexplained_duplicates",
    "fired_twice",
    "wrong_facts",
    "wrong_answers",
    "beyond_the_formula",
    "false_answers",
)
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
        f"{min(row['unacknowledged'] for row in rows)}, {min(row['unanswered'] for row in rows)}",
        ", ".join(f"{min(row['trace'][what] for row in rows)} {what}" for what in rows[0]["trace"]),
        f"{min(lasted_s):.1f} to {max(lasted_s):.1f}",
        f"{statistics.median(late_s):.1f}, {max(late_s):.1f}",
        f"{worst['duplicates']:,}, {worst['allowed']:,}",
    )


def table(rows: Iterable[Row]) -> Iterator[str]:
    for cells in (_HEAD, ("---",) * len(_HEAD), *(line(*each) for each in by_fault(rows).items())):
        yield f"| {' | '.join(cells)} |"


def verdict(row: Row) -> str:
    """Of one run."""
    what = f"{row['counted']} of {row['rounds']} rounds count, {row['acknowledged']:,} tasks acknowledged"
    run = f"Seed {row['seed']}, commit {row['commit']}, {row.get('nodes', 1)} node(s), TTL {row['ttl_ms'] / 1000:g} s"
    broken = [f"{row[name]} {name.replace('_', ' ')}" for name in _BROKEN if row.get(name)]
    written = (
        f"{row['written_again']:,} more deliveries of tasks that a repeated call wrote again (G2), "
        f"{row.get('crossed', 0):,} that crossed the late ack of an earlier attempt"
    )
    ends = f"; it ended early: {row['stuck']}" if row["stuck"] else ""
    return f"- {run}: {what}; {', '.join(broken) or 'every promise held'}; {written}{ends}."


def section(rows: Sequence[Row]) -> str:
    runs = [verdict(row) for row in rows if "holds" in row]
    picture = "![Time until the last task was late by more than a second, by fault](../plots/chaos.png)"
    return "\n".join([*table(rows), "", *runs, "", picture, ""])


def write_docs(rows: Sequence[Row]) -> None:
    page = DOCS / "understand" / "benchmarks.md"
    text = page.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    page.write_text(f"{before}{BEGIN}{section(rows)}{END}{after}", encoding="utf-8")
    late_s = {fault: [row["recovered_ms"] / 1000 for row in found] for fault, found in by_fault(rows).items()}
    lasted_s = {fault: [row["lasted_ms"] / 1000 for row in found] for fault, found in by_fault(rows).items()}
    draw(late_s, lasted_s, DOCS / "plots" / "chaos.png")


def main() -> int:
    words = sys.argv[1:]
    files = [Path(name) for name in words if name != "--docs"]
    if not files:
        print(__doc__, file=sys.stderr)
        return 2
    rows = read(files)
    print(section(rows))
    if "--docs" in words:
        write_docs(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
