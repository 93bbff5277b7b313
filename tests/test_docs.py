"""The documentation names tests and files: they exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_tests_exist(page: Path) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text())
    missing = [f"{file}::{test}" for file, test in named if not _has(ROOT / file, test)]
    assert missing == []


def test_each_edge_case_of_others_has_a_test() -> None:
    lines = (ROOT / "docs/understand/schedule-edges.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| case |")]
    assert len(rows) > 25
    assert [row for row in rows if not re.search(r"\| `tests/[\w/]+\.py::\w+` \|$", row)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_linked_files_exist(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)[^)]*\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_linked_sections_exist(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text())
    missing = [f"{file}#{name}" for file, name in links if name not in _sections(page.parent / file if file else page)]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_modules_exist(page: Path) -> None:
    named = re.findall(r"`((?:adapters|core|model|sdk|services)/[\w/]+\.py)`", page.read_text())
    assert [name for name in named if not (ROOT / "timerd" / name).is_file()] == []


def test_a_walk_has_as_many_stations_as_it_says() -> None:
    page = (ROOT / "docs/understand/architecture.md").read_text()
    walks = re.findall(r"^(\d+) stations\.(.*?)^(?:#|A far|A queue|The SDK)", page, re.MULTILINE | re.DOTALL)
    numbers = [[int(number) for number in re.findall(r"^\| (\d+) \|", walk, re.MULTILINE)] for _, walk in walks]
    assert [list(range(1, int(said) + 1)) for said, _ in walks] == numbers
    assert len(walks) == 4


def test_the_readme_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\((docs/\w+/[\w-]+\.md)\)", (ROOT / "README.md").read_text()))
    assert sorted({path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")} - linked) == []


def test_the_figures_of_the_readme_stand_in_the_page_of_figures() -> None:
    parts = re.split(r"^## ", (ROOT / "docs/understand/benchmarks.md").read_text(), flags=re.MULTILINE)
    lines = {part.partition("\n")[0]: part.splitlines() for part in parts}
    told = re.findall(r"^\| ([^|]+): ([^|:]+) \| ([\d.,]+ [^|]+) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert told
    wrong = [row for row in told if not any(line.startswith(f"| {row[1]} | {row[2]} |") for line in lines[row[0]])]
    assert wrong == []


def _has(file: Path, test: str) -> bool:
    return file.is_file() and (not test or f"def {test}(" in file.read_text())


def _sections(page: Path) -> set[str]:
    """As a heading is named in a link to it."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
