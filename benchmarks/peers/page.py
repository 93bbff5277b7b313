"""The part of docs/understand/benchmarks.md that tells of the comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.figures import lasted
from benchmarks.peers.contenders import CONTENDERS
from benchmarks.peers.rows import ROWS, Row
from benchmarks.peers.table import HEAD, NUMBERS, Records, lines, values, verdict
from benchmarks.reasons import OF_ROWS, told

# Told in sentences, not in the list of facts.
TOLD = ("missing", "options", "steady", "edges", "tried", "peer_versions", "fetch_s", "sweep_s")
# Callers go on until the time is over.
TIMED = ("single", "cancel")


def markdown(about: Mapping[str, Any], records: Records) -> str:
    """What stands between the markers."""
    parts = ["## Beside what people would use instead", *_intro(about, records)]
    for row in ROWS.values():
        parts += _row(records, row)
    return "\n\n".join(parts)


def _row(records: Records, row: Row) -> list[str]:
    rows = list(lines(records, row))
    if not rows:
        return []
    shape = [HEAD, tuple("---:" if name in NUMBERS else "---" for name in HEAD), *rows]
    said = verdict(records, row)
    why = told(OF_ROWS[row.name]) if said and not said.holds else ""
    below = [f"timerd: {said.text}." if said else "timerd has no figure.", why, _sizes(records, row), row.note]
    return [f"### {row.title}", "\n".join(f"| {' | '.join(line)} |" for line in shape), *filter(None, below)]


def _sizes(records: Records, row: Row) -> str:
    """Where the contenders did not do the same work."""
    if row.name in TIMED:
        return "All had the same time: who is quicker did more tasks."
    sizes = {name: values(records, row.name, name, "tasks") for name in CONTENDERS}
    most = max((max(found) for found in sizes.values() if found), default=0)
    fewer = [CONTENDERS[name].title for name, found in sizes.items() if found and max(found) < most]
    if not fewer:
        return ""
    return (
        "The sizes differ: each line tells its tasks (median). Who is slow is given fewer, or is cut off after a time; "
        f"the rate is of what was done. Fewer than {most:,}: {'; '.join(fewer)}."
    )


def _intro(about: Mapping[str, Any], records: Records) -> list[str]:
    facts = "; ".join(f"{name}: {value}" for name, value in about.items() if name not in TOLD)
    missing = "".join(f" {name} is missing: {why}." for name, why in about.get("missing", {}).items())
    versions = "; ".join(
        f"{CONTENDERS[name].title}: {listed(found)}" for name, found in about.get("peer_versions", {}).items()
    )
    return [
        "Measured by `make bench-peers`: every contender with a fresh server for each line, one repetition of all "
        "before the next, tasks of 200 bytes, clients in processes of their own on the same machine. Received is when "
        "the user's handler is entered. What was confirmed is counted in the server afterwards, and what was due at "
        "the handler. Ratios are formed within a repetition, to the durable peer that was best in it; each repetition "
        f"begins with another contender.{missing}",
        *filter(None, (_early(records), _twice(records), _best(about), _took(about, records))),
        f"{facts}. Versions: {versions or 'none'}.",
    ]


def _early(records: Records) -> str:
    return _odd(records, "early", "Tasks that a handler was given before their instant")


def _twice(records: Records) -> str:
    return _odd(records, "twice", "Deliveries of a task that had come already, until all had come")


def _odd(records: Records, field: str, what: str) -> str:
    """Counted, never promised."""
    found = {}
    for name in CONTENDERS:
        own = [one for one in records if one["contender"] == name and field in one and "tasks" in one]
        if own:
            found[CONTENDERS[name].title] = sum(one[field] for one in own), sum(one["tasks"] for one in own)
    if not found:
        return ""
    some = [f"{title} {count:,} of {tasks:,}" for title, (count, tasks) in found.items() if count]
    said = f"{'; '.join(some)}; none of the others" if some else "none"
    return f"{what}: {said} (of {sum(n for _, n in found.values()):,})."


def _best(about: Mapping[str, Any]) -> str:
    """What the sweep found, and where it came to its end."""
    edges, swept = about.get("edges", {}), about.get("options", {})
    best = [f"{CONTENDERS[name].title}: {_options(one, edges.get(name, ()))}" for name, one in swept.items() if one]
    steady = [CONTENDERS[name].title for name, tried in about.get("steady", {}).items() if tried != swept.get(name)]
    first = f" At a steady rate the worker's first settings were better for: {'; '.join(steady)}." if steady else ""
    tries = "one try each, a second of the two best for those that timerd is compared with"
    return f"Best of a sweep before, {tries}: {'; '.join(best) or 'none'}.{first}"


def _options(tried: Mapping[str, int], edges: Sequence[str]) -> str:
    ends = dict.fromkeys(edges, " (the last that was tried)")
    return ", ".join(f"{name} {value:,}{ends.get(name, '')}" for name, value in tried.items())


def _took(about: Mapping[str, Any], records: Records) -> str:
    ends = [one["elapsed_s"] for one in records if "elapsed_s" in one]
    if not ends:
        return ""
    before = f"{lasted(about['fetch_s'])} fetching what was missing, {lasted(about['sweep_s'])} the sweep"
    return f"The whole run took {lasted(max(ends))}: {before}."


def listed(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
