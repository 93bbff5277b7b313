"""Each measure runs to its end at a tiny scale, against a real server, and loses nothing on the way.

What the figures are is for a quiet machine; here it counts that they are there, and that a loss would be noticed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks.bench import none_lost
from benchmarks.document import median_on, put
from benchmarks.figures import Figure, TasksLost, at_least, at_most, forbidden, record_of, rows_of
from benchmarks.measures import MEASURES
from benchmarks.peers.rows import ROWS
from benchmarks.reasons import OF_MEASURES, OF_ROWS
from benchmarks.report import parts, readme

PATIENCE_S = 110
AT_ONCE = 4
FILE = "figures.jsonl"
# Each takes a core for 10 s and more, also at this scale.
LONG = (
    "abandoned",
    "bulk",
    "cancel",
    "full_bucket",
    "growth",
    "memory",
    "ordering",
    "page",
    "recovery",
    "schedule_instants",
)
Runs = dict[str, tuple[Path, Future[subprocess.CompletedProcess[str]]]]
FACTS = {"machine": "2 CPUs", "scale": 1}


def measured(measure: str, folder: Path) -> subprocess.CompletedProcess[str]:
    where = ["--json", str(folder / FILE), "--directory", str(folder)]
    small = ["--repeat", "1", "--scale", "0.001"]
    command_line = [sys.executable, "-m", "benchmarks", measure, *small, *where]
    return subprocess.run(command_line, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """All that are asked for, some at a time: a measure spends most of a small run waiting."""
    wanted = [item.callspec.params["measure"] for item in request.session.items if hasattr(item, "callspec")
              and item.path == Path(__file__) and "measure" in item.callspec.params]  # fmt: skip
    folders = {measure: tmp_path_factory.mktemp(measure) for measure in wanted}
    with ThreadPoolExecutor(AT_ONCE) as threads:
        yield {name: (folder, threads.submit(measured, name, folder)) for name, folder in folders.items()}


def _each() -> Iterator[Any]:
    for measure in MEASURES:
        yield pytest.param(measure, marks=pytest.mark.long if measure in LONG else ())


@pytest.mark.process
@pytest.mark.timeout(4 * PATIENCE_S)
@pytest.mark.parametrize("measure", list(_each()))
def test_a_measure_loses_nothing(measure: str, runs: Runs) -> None:
    folder, running = runs[measure]
    done, results = running.result(), folder / FILE
    assert (done.returncode, done.stderr) == (0, "")
    about, records = command.read(results)
    assert about["scale"] == 0.001
    assert {record["measure"] for record in records} == {measure}
    assert [path.name for path in folder.iterdir()] == [results.name]
    assert all(record["commit"] == about["commit"] for record in records)


def records(*values: float) -> list[dict[str, Any]]:
    return [
        record_of("bulk", run, Figure("due within 5 min", value, "tasks/s", at_least(100), headline=True))
        for run, value in enumerate(values)
    ]


def test_a_row_has_the_median_the_range_and_the_verdict() -> None:
    row = rows_of(records(90, 250, 110))[0]
    assert (row.median, row.range, row.holds) == (110, "90 - 250", True)
    assert not rows_of(records(90, 99, 110))[0].holds
    assert at_most(5).holds(5)
    assert not at_most(5).holds(5.1)


def test_what_must_not_be_at_all_is_told_from_what_is_too_much() -> None:
    early = [record_of("fire", run, Figure("early", value, "tasks", at_most(0))) for run, value in enumerate((0, 0, 1))]
    late = [record_of("fire", 0, Figure("p99", 6, "ms", at_most(5)))]
    assert forbidden(rows_of(early + late)) == ["fire, early: 1 tasks, and there may be none."]
    assert forbidden(rows_of(early[:2] + late)) == []


def test_documents_have_the_figures_beside_their_floors() -> None:
    rows = rows_of(json.loads(json.dumps(records(90, 95, 110))))
    assert list(parts(rows, FACTS)) == ["bulk"]
    assert "| due within 5 min | 95 tasks/s | 90 - 110 | >= 100 MISSED |" in parts(rows, FACTS)["bulk"]
    assert MEASURES["bulk"].text in parts(rows, FACTS)["bulk"]
    assert "Why it is missed: [performance.md](performance.md#bulk)." in parts(rows, FACTS)["bulk"]
    assert "Why" not in parts(rows_of(records(100, 105, 110)), FACTS)["bulk"]
    assert "| Bulk schedule: due within 5 min | 95 tasks/s | >= 100 |" in readme(rows, FACTS)


def test_where_something_is_missed_the_page_names_the_section_that_says_why() -> None:
    page = Path(__file__).parents[2] / "docs" / "understand" / "performance.md"
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    anchors = {title.lower().replace(" ", "-") for title in titles}
    assert (set(OF_MEASURES) | {"watching"}, set(OF_ROWS)) == (set(MEASURES), set(ROWS))
    assert {*OF_MEASURES.values(), *OF_ROWS.values()} <= anchors


def test_a_part_of_a_page_is_replaced_and_the_rest_is_left(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Figures\n\nBy hand.\n")
    for name, text in (("first", "one"), ("second", "two"), ("first", "three")):
        put(page, name, text)
    text = page.read_text()
    assert "By hand." in text
    assert "one" not in text
    assert text.index("three") < text.index("two")


def test_the_median_of_a_row_is_read_from_its_part_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    put(page, "bulk", "|  | median |\n| --- | ---: |\n| far | 227,890 tasks/s |")
    put(page, "single", "| far | 4.55 us/task | 4 - 5 |")
    assert (median_on(page, "bulk", "far"), median_on(page, "single", "far")) == (227_890, 4.55)
    with pytest.raises(KeyError, match="no row 'near' in its part 'bulk'"):
        median_on(page, "bulk", "near")


def test_a_lost_task_fails_the_measure() -> None:
    none_lost("stored", 3, 3)
    with pytest.raises(TasksLost, match=r"^3 tasks were to be stored, 2 were\.$"):
        none_lost("stored", 3, 2)


def test_how_long_the_whole_run_took_stands_with_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figures.jsonl"
    lines = [{"facts": FACTS}, *({**record, "elapsed_s": 71.4} for record in records(120))]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert command.main(["--from", str(path), "--readme"]) == 0
    assert "the whole run took: 1 min 11 s" in capsys.readouterr().out


def test_failures_of_a_file_decide_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.jsonl"
    lines = [{"facts": FACTS}, *records(120), {"measure": "fire", "run": 0, "failed": "3 tasks were lost."}]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert command.main(["--from", str(path), "--write-docs"]) == 1
    assert capsys.readouterr().err.splitlines()[0] == "fire, run 1: 3 tasks were lost."
    path.write_text("nothing of ours")
    assert command.main(["--from", str(path)]) == 1
    assert "cannot be read" in capsys.readouterr().err
