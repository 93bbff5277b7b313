"""Each peer that is installed here keeps and gives back what it is asked to, and the comparison reads as it should."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers import __main__ as command
from benchmarks.peers import page, table
from benchmarks.peers.comparison import Comparison
from benchmarks.peers.contenders import CONTENDERS
from benchmarks.peers.installed import ROOT, Installed, default_cache
from benchmarks.peers.rows import ROWS, SERVERS
from benchmarks.peers.sweep import Ladder, again, best_of, climb

TOOLS = Installed(default_cache())
PATIENCE_S = 200
AT_ONCE = 4
FIGURES = "figures.jsonl"
SMALL = ("--scale", "0.0005", "--repeat", "1", "--no-sweep")
Runs = dict[str, tuple[Path, Future[subprocess.CompletedProcess[str]]]]


def compared(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """As with the defaults: the folder is named from here, while servers are started from anywhere."""
    where = ["--only", name, "--json", FIGURES, "--directory", "build"]
    command_line = [sys.executable, "-m", "benchmarks.peers", *SMALL, *where]
    there = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command_line, capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=folder, env=there
    )


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """All that are asked for and are here, some at a time: most of a small run is waiting."""
    wanted = [item.callspec.params["name"] for item in request.session.items if hasattr(item, "callspec")
              and item.path == Path(__file__) and "name" in item.callspec.params]  # fmt: skip
    folders = {name: tmp_path_factory.mktemp(name) for name in wanted if not CONTENDERS[name].lacks(TOOLS)}
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield {name: (folder, threads.submit(compared, name, folder)) for name, folder in folders.items()}


def why_not_here(name: str) -> str:
    """Empty if it is. In CI a contender is left out only if the fetch before has tried and told why."""
    lacking = CONTENDERS[name].lacks(TOOLS)
    if not lacking:
        return ""
    told = [why for what, why in TOOLS.not_to_be_had().items() if lacking.startswith(what)]
    reason = f"not installed: {lacking}; {told[0] if told else '`python -m benchmarks.peers --fetch-only` gets it'}"
    if os.environ.get("CI") == "true" and not told:
        pytest.fail(reason)
    return reason


@pytest.mark.long
@pytest.mark.process
@pytest.mark.timeout(2 * PATIENCE_S)
@pytest.mark.parametrize("name", CONTENDERS)
def test_a_contender_loses_nothing(name: str, runs: Runs) -> None:
    """In each row that it takes; what it stored is counted in it, what it delivers at the handler."""
    if reason := why_not_here(name):
        pytest.skip(reason)
    folder, running = runs[name]
    done, contender = running.result(), CONTENDERS[name]
    assert (done.returncode, done.stderr) == (0, "")
    about, found = command.read(folder / FIGURES)
    assert [one["row"] for one in found] == [row.name for row in ROWS.values() if row.takes(contender)]
    assert [one["failed"] for one in found if "failed" in one] == []
    assert sum(one.get("early", 0) for one in found) <= (6 if name == "bullmq" else 0), "its delays are whole ms"
    assert about["options"][name] == found[0]["options"]
    assert not any((folder / "build").iterdir())
    assert all(one["commit"] and one["versions"] and one["machine"] and one["seed"] and one["tasks"] for one in found)
    # Two hundred tasks may take less memory than the server gives back meanwhile.
    assert all(one["value"] > 0 for one in found if one["row"] != "memory")
    told = {*((contender.program,) if contender.program else ()), *contender.modules}
    assert all(told <= set(one["peer_versions"]) for one in found)
    assert [one["elapsed_s"] for one in found] == sorted(one["elapsed_s"] for one in found)


def records(row: str, **rates: tuple[float, ...]) -> list[dict[str, Any]]:
    return [
        {"row": row, "contender": name.replace("_", "-"), "run": run, "value": value}
        for name, values in rates.items()
        for run, value in enumerate(values)
    ]


NEEDED = "the best durable peer, and those must be there: " + "; ".join(CONTENDERS[name].title for name in SERVERS)


def test_a_ratio_is_formed_within_a_repetition_and_to_the_best_durable_peer() -> None:
    slow_minute = records("single", timerd=(100, 50, 110), redis_always=(80, 40, 100), redis_everysec=(900, 900, 900))
    others = records("single", postgres=(10, 10, 10), beanstalkd_sync=(10, 10, 10))
    found = table.verdict([*slow_minute, *others], ROWS["single"])
    assert found is not None
    assert found.values == (1.25, 1.25, 1.1)
    assert (found.against, found.holds) == (("redis-always",), True)
    assert found.text == f"1.25x (range 1.10 - 1.25) Redis zset, AOF always; target >= 1.2x {NEEDED}: met"
    moved = table.verdict(
        [*slow_minute, *records("single", postgres=(10, 50, 10), beanstalkd_sync=(9, 9, 9))], ROWS["single"]
    )
    assert moved is not None
    assert moved.values == (1.25, 1.0, 1.1), "another one was best in the second"
    title = "Redis zset, AOF always in 2 of 3, PostgreSQL SKIP LOCKED, COPY in 1 of 3"
    assert moved.text.startswith(f"1.10x (range 1 - 1.25) {title};")


def test_a_row_that_misses_its_target_says_so() -> None:
    found = table.verdict(records("lateness", timerd=(4.0, 4.6, 4.2), redis_always=(2, 2, 2)), ROWS["lateness"])
    assert found is not None
    assert found.text == "target <= 1.50 ms: MISSED"
    others = records("lateness", postgres=(5, 5, 5), beanstalkd_sync=(3, 3, 3))
    late = records("lateness", timerd=(4.0, 4.6, 4.2), redis_always=(2, 4, 2))
    found = table.verdict([*late, *others], ROWS["lateness"])
    assert found is not None
    least = "Redis zset, AOF always in 2 of 3, beanstalkd -b -f 0 in 1 of 3"
    assert found.text == f"target <= 1.50 ms: MISSED; 2x (range 1.53 - 2.10) {least}"
    servers = {"redis_always": (100,), "postgres": (10,), "beanstalkd_sync": (10,)}
    found = table.verdict(records("fire", timerd=(90,), **servers), ROWS["fire"])
    assert found is not None
    assert found.text.endswith(f"target >= 1.15x {NEEDED}: MISSED")
    found = table.verdict(records("cancel", timerd=(90,), redis_always=(100,)), ROWS["cancel"])
    assert found is not None
    assert found.text.endswith("target >= 1.2x Redis zset, AOF always: MISSED")


def test_nothing_is_said_of_a_ratio_without_the_peers_that_it_needs() -> None:
    weak = records("fire", timerd=(100, 100), beanstalkd_sync=(10, 10), bullmq=(10, 10), redis_always=(10,))
    found = table.verdict(weak, ROWS["fire"])
    assert found is not None
    assert (found.values, found.holds) == ((), False)
    gaps = "Redis zset, AOF always has no figure in run 2, PostgreSQL SKIP LOCKED, COPY is missing"
    assert found.text == f"not comparable: {gaps}; target >= 1.15x {NEEDED}"
    found = table.verdict(records("cancel", timerd=(100,), postgres=(10,)), ROWS["cancel"])
    assert found is not None
    assert found.text.startswith("not comparable: Redis zset, AOF always is missing;")
    assert table.verdict(records("single", redis_always=(100,)), ROWS["single"]) is None


async def test_a_setting_is_climbed_to_until_it_gets_worse_or_ends() -> None:
    ladder = Ladder(8, most=32)

    async def tried(*rates: float | None) -> dict[int, float]:
        given = iter(rates)

        async def measure(_: int) -> float | None:
            return next(given)

        return await climb(ladder, measure)

    assert await tried(1, 2, 1.5) == {8: 1, 16: 2, 32: 1.5}
    assert await tried(1, 0.5, 2, 1) == {8: 1, 16: 0.5, 4: 2, 2: 1}
    assert await tried(3, 2, 1) == {8: 3, 16: 2, 4: 1}
    assert await tried(1, None, 0.5) == {8: 1, 4: 0.5}
    assert (best_of({8: 1, 16: 2, 32: 1.5}), ladder.ends_at({8: 1, 16: 2, 32: 1.5})) == (16, False)
    assert ladder.ends_at({8: 1, 16: 2, 32: 3})
    assert ladder.ends_at({8: 1, 4: 0.5}), "more could not be tried"
    assert not ladder.ends_at({1: 3, 2: 2}), "less than one there is not"


def test_each_repetition_begins_with_another_contender() -> None:
    """And asks each contender each row that it takes, once."""
    given, present = command.parsed(["--row", "single", "--row", "cancel"]), list(CONTENDERS.values())
    trials = list(Comparison(given, TOOLS, present).trials())
    firsts = [next(one.name for run, _, one in trials if run == wanted) for wanted in range(3)]
    assert len(set(firsts)) == 3
    asked = [(run, row.name, one.name) for run, row, one in trials]
    assert len(set(asked)) == len(asked) == 3 * (2 * len(present) - sum(not one.cancels for one in present))


async def test_the_two_best_settings_get_a_second_try() -> None:
    """A slow moment of the machine decides nothing; one that cannot be tried again keeps what it had."""
    second: dict[int, float | None] = {16: 2.5, 32: 4}

    async def measure(value: int) -> float | None:
        return second.pop(value)

    tried = {8: 1.0, 16: 3.0, 32: 2.0}
    await again(tried, measure)
    assert (tried, best_of(tried), second) == ({8: 1.0, 16: 3.0, 32: 4}, 32, {})
    second = {8: None}
    tried = {8: 1.0}
    await again(tried, measure)
    assert tried == {8: 1.0}


def test_what_failed_and_what_is_missing_stand_in_the_page() -> None:
    about = {"commit": "abc", "missing": {"BullMQ on Redis, AOF always": "node with BullMQ"}, "options": {}}
    failed = {"row": "fire", "contender": "celery", "run": 0, "failed": "3 tasks were to be delivered, 2 were."}
    text = page.markdown(about, [*records("fire", timerd=(90.0, 110)), failed])
    assert "BullMQ on Redis, AOF always is missing: node with BullMQ." in text
    failed_line = (
        "| Celery eta on Redis, AOF always | yes: fsync | failed |  |  | 3 tasks were to be delivered, 2 were. |"
    )
    assert failed_line in text
    assert "| timerd | yes: fsync | 100 tasks/s | 90 - 110 |" in text
    assert "timerd: not comparable: Redis zset, AOF always is missing" in text


def test_the_page_tells_sizes_what_came_early_the_end_of_the_sweep_and_how_long_it_took() -> None:
    tasks = {"timerd": 100_000, "redis-always": 100_000, "apscheduler": 1_000}
    found = [
        {"row": "fire", "contender": name, "run": 0, "value": 5.0, "tasks": count, "early": int(name == "redis-always"),
         "elapsed_s": 1_090.4} for name, count in tasks.items()
    ]  # fmt: skip
    about = {
        "commit": "abc",
        "options": {"redis-always": {"batch": 4_000, "writers": 16}},
        "steady": {"redis-always": {"batch": 4_000, "writers": 1}},
        "edges": {"redis-always": ["writers"]},
        "peer_versions": {"redis-always": {"redis-server": "7.0.15", "hiredis": "3.3.0"}},
        "fetch_s": 0.2,
        "sweep_s": 205.0,
    }
    text = page.markdown(about, found)
    assert "Redis zset, AOF always: batch 4,000, writers 16 (the last that was tried)." in text
    assert "were better for: Redis zset, AOF always." in text
    assert "before their instant: Redis zset, AOF always 1 of 100,000; none of the others (of 201,000)." in text
    assert "Fewer than 100,000: APScheduler 3, SQLite." in text
    assert "The whole run took 18 min 10 s: 0 s fetching what was missing, 3 min 25 s the sweep." in text
    assert "commit: abc. Versions: Redis zset, AOF always: redis-server 7.0.15, hiredis 3.3.0." in text
    assert ROWS["fire"].note in text


def test_a_contender_that_is_not_there_is_named(tmp_path: Path) -> None:
    given = command.parsed(["--only", "bullmq", "--cache", str(tmp_path)])
    present, lacking = command.chosen(given, Installed(tmp_path))
    assert present == []
    assert lacking == {"BullMQ on Redis, AOF always": "node with BullMQ"}
