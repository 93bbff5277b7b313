"""What `--help` says: grouped, a line for each command, 80 columns; walked over all commands that there are."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from tests.cli.commands import paths_of_commands
from tests.cli.conftest import Terminal
from tests.docs.blocks import read

PATHS = [path for path, _ in paths_of_commands()]
GROUPS = sorted({path[:-1] for path in PATHS})
# Words of a line of a page that begins with a command of ours.
COMMAND = re.compile(r"(?:^    |\$ |`)timerd ((?:[a-z][a-z-]*(?: |$|`))+)", re.MULTILINE)


@pytest.fixture
def narrow(terminal: Terminal) -> Terminal:
    terminal.monkeypatch.setenv("COLUMNS", "80")
    return terminal


def panels(text: str) -> dict[str, list[str]]:
    """Title -> lines of each box."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("╭─ "):
            title = line.strip("╭─╮ ")
            found[title] = []
        elif line.startswith("│"):
            found[title].append(line.strip("│"))
    return found


@pytest.mark.parametrize("path", [*GROUPS, *PATHS], ids=" ".join)
def test_help_fits_80_columns(narrow: Terminal, path: tuple[str, ...]) -> None:
    ran = narrow(*path, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert f"Usage: {' '.join(('timerd', *path))}" in ran.out
    assert [line for line in ran.out.splitlines() if cell_len(line) > 80] == []


@pytest.mark.parametrize("group", GROUPS, ids=" ".join)
def test_each_command_of_a_group_is_one_line(narrow: Terminal, group: tuple[str, ...]) -> None:
    expected = sorted({path[len(group)] for path in PATHS if path[: len(group)] == group})
    boxes = panels(narrow(*group, "--help").out)
    lines = [line for title, lines in boxes.items() if title not in ("Options", "Arguments") for line in lines]
    assert sorted(line.split()[0] for line in lines) == expected
    assert [line for line in lines if len(line.split()) < 3] == []


def test_the_commands_stand_in_panels(narrow: Terminal) -> None:
    boxes = panels(narrow("--help").out)
    assert list(boxes) == [
        "Options", "Run a server", "Tasks", "Dead letters", "Schedules and cycles", "Operate", "Try it"
    ]  # fmt: skip
    assert [line.split()[0] for line in boxes["Dead letters"]] == ["dead-letters", "redrive", "purge-dead"]
    assert [line.split()[0] for line in boxes["Schedules and cycles"]] == ["schedules", "cycles", "zones"]


def test_the_commands_that_the_page_names_are_there() -> None:
    named = [found.split(" ") for found in COMMAND.findall(read("docs/use/cli.md"))]
    assert named
    for words in named:
        typed = tuple(word.strip("`") for word in words if word)
        assert any(typed[: len(path)] == path for path in PATHS), typed
