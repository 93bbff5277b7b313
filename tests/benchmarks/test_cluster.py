"""Figures of a cluster: what counts as what, and what is written of it. The measures themselves are tried where a node
is: tests/engines/test_cluster_figures.py."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.cluster.__main__ import MEASURES, ONCE, parsed, planned, text_of
from benchmarks.cluster.calls import Asked
from benchmarks.cluster.counting import CONTROL_READS, KEY_SCANS, LWT, SERIAL_READS, kind_of
from benchmarks.cluster.takeover import Notes
from benchmarks.figures import Figure, at_least, record_of


@pytest.mark.parametrize(
    ("cql", "kind"),
    [
        ('SELECT name, value FROM k."partition_control" WHERE name IN ?', CONTROL_READS),
        ('SELECT value FROM k."instances" WHERE name = ?', f"{SERIAL_READS} instances"),
        ('UPDATE k."instances" SET value = ?, expires_ms = ? WHERE name = ? IF value = ?', f"{LWT} instances"),
        ('INSERT INTO k."keys" (name, value) VALUES (?, ?) IF NOT EXISTS', f"{LWT} keys"),
        ("SELECT position_ms, digest, value FROM k.tasks WHERE scope = ?", KEY_SCANS),
        ("SELECT position_ms, digest, value, body FROM k.tasks WHERE scope = ?", "scans with bodies"),
        ("INSERT INTO k.tasks (scope, body) VALUES (?, ?)", "insert tasks"),
    ],
)
def test_requests_are_told_apart(cql: str, kind: str) -> None:
    assert kind_of(cql) == kind


def test_shares_are_of_all_requests_and_of_all_their_time() -> None:
    requests = Counter({f"{LWT} instances": 10, f"{LWT} keys": 5, CONTROL_READS: 45, "insert tasks": 40})
    asked = Asked(5.0, requests, Counter({CONTROL_READS: 100, "insert tasks": 300}), Counter())
    assert (asked.per_s(LWT), asked.per_s("")) == (3.0, 20.0)
    assert (asked.share(CONTROL_READS), asked.time_share(CONTROL_READS)) == (45.0, 25.0)


def test_a_take_over_is_the_first_delivery_of_the_next_holder_after_the_kill() -> None:
    notes = Notes()
    notes.first_s["a"] = {7: 1.0, 8: 14.5, 9: 30.0}
    notes.first_s["b"] = {7: 1.0}
    notes.first_s["new"] = {9: 15.0}
    assert notes.successors_s({"a": 7, "b": 7}, killed_s=4.0) == {"a": 10.5}


def test_long_measures_are_made_once_and_the_page_has_all_of_them() -> None:
    runs = planned(parsed(["--repeat", "2"]))
    assert [name for run, name in runs if run == 1] == [name for name in MEASURES if name not in ONCE]
    figure = Figure("timerd : bare driver", 0.85, "", at_least(0.8))
    text = text_of([record_of("insert", run, figure) for run in (0, 1)], {"machine": "two cores", "scale": 1})
    assert MEASURES["insert"].TITLE in text
    assert MEASURES["takeover"].TITLE not in text
    assert "| timerd : bare driver | 0.85  | 0.85 - 0.85 | >= 0.80 reached |" in text
    assert "machine: two cores" in text
