"""Of schedules of every second no two tasks are open, though their server is killed.
The long form: python -m tests.process.overlapping."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.process.overlapping.judging import Attempt, alone, one_task_each
from tests.process.overlapping.run import POLICIES, Settings, run

FIRST, SECOND = Attempt("s", "12:00", "a", 1.0, 1.5), Attempt("s", "12:01", "b", 1.6, 2.0)


@pytest.mark.process
@pytest.mark.timeout(400)
async def test_no_two_are_open_though_the_server_is_killed(tmp_path: Path) -> None:
    verdict = await run(Settings(schedules=10, occurrences=100, between_s=(1.0, 3.0)), tmp_path, lambda _: None)
    assert verdict.wrong == []
    assert verdict.kills >= 1
    assert verdict.long > 0
    assert sorted(verdict.occurrences) == sorted(POLICIES)


def test_the_judge_finds_nothing_where_nothing_is_wrong() -> None:
    again = replace(FIRST, began_s=1.51, ended_s=1.55)
    other = replace(SECOND, schedule="t", began_s=1.0)
    assert alone([SECOND, FIRST, again, other]) == one_task_each([SECOND, FIRST, again, other]) == []


def test_the_judge_finds_two_that_are_open() -> None:
    said = "s: a task began 0.200 s before the end of the one before"
    assert alone([FIRST, replace(SECOND, began_s=1.3)]) == [said]
    # By its second attempt too.
    assert alone([FIRST, SECOND, replace(FIRST, began_s=1.7, ended_s=1.8)]) == [said]


def test_the_judge_finds_an_instant_with_two_tasks() -> None:
    assert one_task_each([FIRST, replace(FIRST, task_id="c")]) == ["s: 12:00 has 2 tasks"]
