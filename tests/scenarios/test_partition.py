"""The stories of the partition machine (tests/scenarios/partition/*.txt)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.rig import Rig
from tests.scenarios.story import parts, play

STORIES = sorted((Path(__file__).parent / "partition").glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    assert play(path, Rig().step) == []


def test_a_wrong_answer_is_told_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REWRITE", raising=False)
    path = tmp_path / "wrong.txt"
    path.write_text("# It begins.\n\nstart\n----\nnothing\n")
    [told] = play(path, Rig().step)
    assert told.startswith("wrong.txt:3 start\nit says:\nread the control row")


def test_each_story_says_what_it_is_about() -> None:
    assert STORIES
    silent = [path.name for path in STORIES if not next(parts(path.read_text(encoding="utf-8"))).remarks]
    assert silent == []
