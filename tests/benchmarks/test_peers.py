"""Each peer that is installed here keeps and gives back what it is asked to, and the comparison reads as it should."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers import __main__ as command
from benchmarks.peers import table
from benchmarks.peers.contenders import CONTENDERS
from benchmarks.peers.installed import Installed, default_cache
from benchmarks.peers.rows import ROWS

TOOLS = Installed(default_cache())


@pytest.mark.process
@pytest.mark.parametrize("name", CONTENDERS)
def test_a_contender_loses_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if lacking := CONTENDERS[name].lacks(TOOLS):
        pytest.skip(f"not installed: {lacking}; `python -m benchmarks.peers --fetch` gets it")
    figures = tmp_path / "figures.jsonl"
    small = ["--scale", "0.0005", "--repeat", "1", "--no-sweep", "--row", "fire"]
    # As with the default: named from here, while servers are started from anywhere.
    monkeypatch.chdir(tmp_path)
    where = ["--json", str(figures), "--directory", "build"]
    command.main(["--only", name, *small, *where])
    about, records = command.read(figures)
    assert [(one["contender"], one["row"], one.get("failed")) for one in records] == [(name, "fire", None)]
    assert records[0]["early"] <= (3 if name == "bullmq" else 0), "BullMQ's delays are whole milliseconds"
    assert about["options"][name] == records[0]["options"]
    assert not any((tmp_path / "build").iterdir())


@pytest.mark.process
def test_every_row_has_a_figure(tmp_path: Path) -> None:
    """Of timerd, which is installed everywhere; one row of each contender is above."""
    figures = tmp_path / "figures.jsonl"
    small = ["--only", "timerd", "--scale", "0.0005", "--repeat", "1", "--no-sweep"]
    assert command.main([*small, "--json", str(figures), "--directory", str(tmp_path / "build")]) == 0
    _, found = command.read(figures)
    assert [one["row"] for one in found] == list(ROWS)
    assert all(one["commit"] and one["versions"] and one["machine"] for one in found)
    # Two hundred tasks may take less memory than the server gives back meanwhile.
    assert all(one["value"] > 0 for one in found if one["row"] != "memory")


def records(row: str, **rates: tuple[float, ...]) -> list[dict[str, Any]]:
    return [
        {"row": row, "contender": name.replace("_", "-"), "run": run, "value": value}
        for name, values in rates.items()
        for run, value in enumerate(values)
    ]


def test_a_ratio_is_formed_within_a_repetition_and_to_the_best_durable_peer() -> None:
    slow_minute = records("single", timerd=(100, 50, 110), redis_always=(80, 40, 100), redis_everysec=(900, 900, 900))
    found = table.verdict([*slow_minute, *records("single", postgres=(10, 10, 10))], ROWS["single"])
    assert found is not None
    assert found.values == (1.25, 1.25, 1.1)
    assert (found.against, found.holds) == ("redis-always", True)
    assert found.text == "1.25x (range 1.10 - 1.25) Redis zset, AOF always; target >= 1.2x: met"


def test_a_row_that_misses_its_target_says_so() -> None:
    found = table.verdict(records("lateness", timerd=(4.0, 4.6, 4.2), redis_always=(2, 2, 2)), ROWS["lateness"])
    assert found is not None
    assert found.text == "target <= 1.50 ms: MISSED"
    found = table.verdict(records("fire", timerd=(90,), redis_always=(100,)), ROWS["fire"])
    assert found is not None
    assert found.text.endswith("target >= 1.15x: MISSED")


def test_no_ratio_without_a_durable_peer() -> None:
    assert table.verdict(records("single", timerd=(100,), redis_everysec=(100,)), ROWS["single"]) is None
    assert table.verdict(records("single", redis_always=(100,)), ROWS["single"]) is None


def test_what_failed_and_what_is_missing_stand_in_the_page() -> None:
    about = {"commit": "abc", "missing": {"BullMQ on Redis, AOF always": "node with BullMQ"}, "options": {}}
    failed = {"row": "fire", "contender": "celery", "run": 0, "failed": "3 tasks were to be delivered, 2 were."}
    page = table.markdown(about, [*records("fire", timerd=(90.0, 110)), failed])
    assert "BullMQ on Redis, AOF always is missing: node with BullMQ." in page
    assert (
        "| Celery eta on Redis, AOF always | yes: fsync | failed |  | 3 tasks were to be delivered, 2 were. |" in page
    )
    assert "| timerd | yes: fsync | 100 tasks/s | 90 - 110 |" in page


def test_a_contender_that_is_not_there_is_named(tmp_path: Path) -> None:
    given = command.parsed(["--only", "bullmq", "--cache", str(tmp_path)])
    present, lacking = command.chosen(given, Installed(tmp_path))
    assert present == []
    assert lacking == {"BullMQ on Redis, AOF always": "node with BullMQ"}
