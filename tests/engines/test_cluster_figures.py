"""`python -m benchmarks.cluster` on a hundredth of its tasks: it loses none and says its figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.cluster.__main__ import main
from tests.engines.finding import ADDRESS, CENTER, Found

pytestmark = [pytest.mark.engines, pytest.mark.process]


def test_the_figures_of_a_cluster_are_taken_on_a_node(
    cassandra_found: Found, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ADDRESS, f"{cassandra_found.address}:{cassandra_found.port}")
    monkeypatch.setenv(CENTER, cassandra_found.datacenter)
    results = tmp_path / "cluster.jsonl"
    where = ["--json", str(results), "--directory", str(tmp_path)]
    assert main(["firing", "hot_second", "handover", "slots", "--repeat", "1", "--scale", "0.01", *where]) == 0
    facts, *records = map(json.loads, results.read_text().splitlines())
    assert facts["facts"]["scale"] == 0.01
    found = {record["name"]: record["value"] for record in records}
    assert found["fires of one instance"] > 0
    assert (found["early"], found["twice"]) == (0, 0)
