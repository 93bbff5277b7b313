"""Figures of scenes as Markdown, between the two marks of docs/operate/kubernetes.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "kubernetes.md"
BEGIN, END = "<!-- kubernetes: begin -->\n", "<!-- kubernetes: end -->\n"
Row = dict[str, Any]
# Column -> the fact that it shows, of scenes under load.
_LOADED = {
    "tasks a second": "rate",
    "lasted, s": "lasted_s",
    "acknowledged": "acknowledged",
    "lost": "lost",
    "early": "early",
    "again": "duplicates",
    "late p50, ms": "p50_ms",
    "p99, ms": "p99_ms",
    "most, ms": "most_ms",
    "handlers of 5 s": "slow",
    "of 130 s": "beyond_grace",
}


def section(rows: Sequence[Row]) -> str:
    loaded = [row for row in rows if "acknowledged" in row["facts"]]
    others = [row for row in rows if row not in loaded]
    parts = [setting(rows[0])] if rows else []
    if loaded:
        parts.append(table(["under load", *_LOADED, "held"], [loaded_cells(row) for row in loaded]))
    if others:
        parts.append(table(["without load", "figures", "held"], [other_cells(row) for row in others]))
    broken = [f"- {row['scene']}: {case}" for row in rows for case in row["broken"]]
    if broken:
        parts.append("\n".join(["What did not hold (of each kind at most five cases):", "", *broken]))
    return "\n\n".join(parts) + "\n"


def setting(row: Row) -> str:
    note = f"; {row['note']}" if row["note"] else ""
    return f"Commit {row['commit']}; {row['machine']}{note}."


def loaded_cells(row: Row) -> list[str]:
    return [row["scene"], *(f"{row['facts'][fact]:,}" for fact in _LOADED.values()), yes(row)]


def other_cells(row: Row) -> list[str]:
    return [row["scene"], ", ".join(f"{name}: {value}" for name, value in row["facts"].items()), yes(row)]


def yes(row: Row) -> str:
    return "yes" if row["holds"] else "**no**"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def write_docs(rows: Sequence[Row]) -> None:
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}{section(rows)}{END}{after}", encoding="utf-8")
