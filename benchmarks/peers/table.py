"""The comparison as people read it. Ratios are formed within one repetition, then the median and range are taken."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.figures import shown
from benchmarks.peers.contenders import CONTENDERS, PEERS, TIMERD
from benchmarks.peers.rows import SERVERS, Row

Records = Sequence[Mapping[str, Any]]
HEAD = ("", "durable when confirmed", "median", "range", "tasks", "")
NUMBERS = ("median", "range", "tasks")
# Beside the value of a row, where a row has more to tell.
EXTRAS = {
    "fire": (("first delivery", "first_ms", "ms"), ("early", "early", "tasks")),
    "lateness": (("p50", "p50_ms", "ms"), ("p99.9", "p999_ms", "ms"), ("early", "early", "tasks"),
                 ("at", "rate_per_s", "/s")),
    "memory": (("disk, logs included", "disk_bytes", "B/task"),),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verdict:
    """How timerd stands in a row. `values` are ratios, or figures where the target is a figure; none where it cannot
    be told."""

    values: tuple[float, ...]
    against: tuple[str, ...]
    holds: bool
    text: str


def values(records: Records, row: str, contender: str, field: str = "value") -> list[Any]:
    return [one[field] for one in records if (one["row"], one["contender"]) == (row, contender) and field in one]


def by_run(records: Records, row: str, contender: str) -> dict[int, float]:
    chosen = (one for one in records if (one["row"], one["contender"]) == (row, contender) and "value" in one)
    return {one["run"]: one["value"] for one in chosen}


def verdict(records: Records, row: Row) -> Verdict | None:
    """None without timerd."""
    ours = by_run(records, row.name, TIMERD.name)
    if not ours:
        return None
    if not row.target.ratio:
        middle = statistics.median(ours.values())
        holds = middle >= row.target.limit if row.more_is_better else middle <= row.target.limit
        sign = ">=" if row.more_is_better else "<="
        text = f"target {sign} {shown(row.target.limit)} {row.unit}: {'met' if holds else 'MISSED'}"
        # Of peers that were asked for the same rate.
        beside = f"; {_ratio(records, row, ours, SERVERS)[2]}" if _has_all(records, row, ours) else ""
        return Verdict(tuple(ours.values()), (), holds, f"{text}{beside}")
    return _compared(records, row, ours)


def _has_all(records: Records, row: Row, ours: Mapping[int, float]) -> bool:
    return not any(_gap(records, row, name, ours) for name in SERVERS)


def _compared(records: Records, row: Row, ours: Mapping[int, float]) -> Verdict:
    """Without a peer that it needs the best of the others would be beaten too easily."""
    if gaps := [gap for name in row.target.needs if (gap := _gap(records, row, name, ours))]:
        return Verdict((), (), False, f"not comparable: {', '.join(gaps)}; {_target(row)}")
    names = [row.target.against] if row.target.against else [peer.name for peer in PEERS if peer.durable]
    ratios, best, text = _ratio(records, row, ours, names)
    holds = statistics.median(ratios) >= row.target.limit
    return Verdict(ratios, best, holds, f"{text}; {_target(row)}: {'met' if holds else 'MISSED'}")


def _ratio(
    records: Records, row: Row, ours: Mapping[int, float], names: Sequence[str]
) -> tuple[tuple[float, ...], tuple[str, ...], str]:
    """To the best of each repetition: it need not be the same one in all."""
    theirs = {name: by_run(records, row.name, name) for name in names}
    choose = max if row.more_is_better else min
    best: dict[int, str] = {}
    for run in sorted(ours):
        there = [name for name in names if run in theirs[name]]
        if there:
            best[run] = choose(there, key=lambda name: theirs[name][run])
    ratios = tuple(ours[run] / theirs[name][run] for run, name in best.items())
    counts = Counter(best.values()).most_common()
    titles = CONTENDERS[counts[0][0]].title
    if len(counts) > 1:
        titles = ", ".join(f"{CONTENDERS[name].title} in {count} of {len(best)}" for name, count in counts)
    around = f"range {shown(min(ratios))} - {shown(max(ratios))}"
    return ratios, tuple(name for name, _ in counts), f"{shown(statistics.median(ratios))}x ({around}) {titles}"


def _gap(records: Records, row: Row, name: str, ours: Mapping[int, float]) -> str:
    """Empty if this peer has a figure in each repetition in which timerd has one."""
    lacking = sorted(ours.keys() - by_run(records, row.name, name).keys())
    if not lacking:
        return ""
    tried = any((one["row"], one["contender"]) == (row.name, name) for one in records)
    runs = ", ".join(str(run + 1) for run in lacking)
    return f"{CONTENDERS[name].title} {f'has no figure in run {runs}' if tried else 'is missing'}"


def _target(row: Row) -> str:
    limit, needed = f"target >= {row.target.limit}x", [CONTENDERS[name].title for name in row.target.needs]
    if row.target.against:
        return f"{limit} {needed[0]}"
    return f"{limit} the best durable peer, and those must be there: {'; '.join(needed)}"


def lines(records: Records, row: Row) -> Iterable[tuple[str, ...]]:
    for name, contender in CONTENDERS.items():
        found = values(records, row.name, name)
        failed = values(records, row.name, name, "failed")
        if found:
            middle = f"{shown(statistics.median(found))} {row.unit}"
            told = [_extras(records, row, name), *([f"failed in {len(failed)} of the runs"] if failed else [])]
            tasks = values(records, row.name, name, "tasks")
            asked = shown(statistics.median(tasks)) if tasks else ""
            yield contender.title, contender.confirmed, middle, _range(found), asked, "; ".join(filter(None, told))
        elif failed:
            yield contender.title, contender.confirmed, "failed", "", "", str(failed[0]).splitlines()[0][:120]


def _extras(records: Records, row: Row, name: str) -> str:
    told = [extra for extra in EXTRAS.get(row.name, ()) if values(records, row.name, name, extra[1])]
    return "; ".join(f"{label} {_middle(records, row, name, field)} {unit}" for label, field, unit in told)


def _middle(records: Records, row: Row, name: str, field: str) -> str:
    """With the range where a target is about it."""
    found = values(records, row.name, name, field)
    around = f" ({_range(found)})" if field == "first_ms" and len(found) > 1 else ""
    return f"{shown(statistics.median(found))}{around}"


def _range(found: Sequence[float]) -> str:
    return f"{shown(min(found))} - {shown(max(found))}" if len(found) > 1 else ""
