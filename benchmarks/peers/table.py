"""The comparison as people read it. Ratios are formed within one repetition, then the median and range are taken."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.figures import shown
from benchmarks.peers.contenders import CONTENDERS, PEERS, TIMERD
from benchmarks.peers.rows import ROWS, Row

Records = Sequence[Mapping[str, Any]]
# Beside the value of a row, where a row has more to tell.
EXTRAS = {
    "fire": (("first delivery", "first_ms", "ms"), ("early", "early", "tasks")),
    "lateness": (("p50", "p50_ms", "ms"), ("p99.9", "p999_ms", "ms"), ("early", "early", "tasks"),
                 ("at", "rate_per_s", "/s")),
    "memory": (("disk, logs included", "disk_bytes", "B/task"),),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdict:
    """How timerd stands in a row. `values` are ratios, or figures where the target is a figure."""

    values: tuple[float, ...]
    against: str
    holds: bool
    text: str


def values(records: Records, row: str, contender: str, field: str = "value") -> list[Any]:
    return [one[field] for one in records if (one["row"], one["contender"]) == (row, contender) and field in one]


def by_run(records: Records, row: str, contender: str) -> dict[int, float]:
    chosen = (one for one in records if (one["row"], one["contender"]) == (row, contender) and "value" in one)
    return {one["run"]: one["value"] for one in chosen}


def verdict(records: Records, row: Row) -> Verdict | None:
    """None without timerd, or without a peer to compare it with."""
    ours = by_run(records, row.name, TIMERD.name)
    if not ours:
        return None
    if not row.target.ratio:
        middle = statistics.median(ours.values())
        holds = middle >= row.target.limit if row.more_is_better else middle <= row.target.limit
        sign = ">=" if row.more_is_better else "<="
        text = f"target {sign} {shown(row.target.limit)} {row.unit}"
        return Verdict(tuple(ours.values()), "", holds, f"{text}: {'met' if holds else 'MISSED'}")
    return _ratio(records, row, ours)


def _ratio(records: Records, row: Row, ours: Mapping[int, float]) -> Verdict | None:
    names = [row.target.against] if row.target.against else [peer.name for peer in PEERS if peer.durable]
    theirs = {name: got for name in names if (got := by_run(records, row.name, name))}
    if not theirs:
        return None
    best = max(theirs, key=lambda name: statistics.median(theirs[name].values()))
    ratios = tuple(ours[run] / theirs[best][run] for run in sorted(ours.keys() & theirs[best].keys()))
    if not ratios:
        return None
    holds = statistics.median(ratios) >= row.target.limit
    around = f"range {shown(min(ratios))} - {shown(max(ratios))}"
    text = f"{shown(statistics.median(ratios))}x ({around}) {CONTENDERS[best].title}"
    return Verdict(ratios, best, holds, f"{text}; target >= {row.target.limit}x: {'met' if holds else 'MISSED'}")


def lines(records: Records, row: Row) -> Iterable[tuple[str, ...]]:
    for name, contender in CONTENDERS.items():
        found = values(records, row.name, name)
        failed = values(records, row.name, name, "failed")
        if found:
            middle = f"{shown(statistics.median(found))} {row.unit}"
            yield contender.title, contender.confirmed, middle, _range(found), _extras(records, row, name)
        elif failed:
            yield contender.title, contender.confirmed, "failed", "", str(failed[0]).splitlines()[0][:120]


def _extras(records: Records, row: Row, name: str) -> str:
    told = [extra for extra in EXTRAS.get(row.name, ()) if values(records, row.name, name, extra[1])]
    return "; ".join(f"{label} {_middle(records, row, name, field)} {unit}" for label, field, unit in told)


def _middle(records: Records, row: Row, name: str, field: str) -> str:
    return shown(statistics.median(values(records, row.name, name, field)))


def _range(found: Sequence[float]) -> str:
    return f"{shown(min(found))} - {shown(max(found))}" if len(found) > 1 else ""


HEAD = ("", "durable when confirmed", "median", "range", "")


def markdown(about: Mapping[str, Any], records: Records) -> str:
    """What stands between the markers of docs/benchmarks.md."""
    parts = ["## Beside what people would use instead", _intro(about)]
    for row in ROWS.values():
        rows = list(lines(records, row))
        if rows:
            table = [HEAD, ("---", "---", "---:", "---:", "---"), *rows]
            said = verdict(records, row)
            parts += [f"### {row.title}", "\n".join(f"| {' | '.join(line)} |" for line in table)]
            parts += [f"timerd: {said.text}." if said else "No ratio: one of the two has no figure."]
    return "\n\n".join(parts)


def _intro(about: Mapping[str, Any]) -> str:
    facts = "; ".join(f"{name}: {value}" for name, value in about.items() if name not in ("missing", "options"))
    missing = "".join(f" {name} is missing: {why}." for name, why in about.get("missing", {}).items())
    best = "; ".join(f"{name}: {_options(tried)}" for name, tried in about.get("options", {}).items() if tried)
    return (
        "Measured by `make bench-peers`: every contender with a fresh server for each line, one repetition of all "
        "before the next, tasks of 200 bytes, clients in processes of their own on the same machine. Received is when "
        "the user's handler is entered; no task leaves its server early. Ratios are formed within a repetition, to the "
        f"best durable peer.{missing} Best of a sweep before: {best or 'none'}.\n\n{facts}."
    )


def _options(tried: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value:,}" for name, value in tried.items())
