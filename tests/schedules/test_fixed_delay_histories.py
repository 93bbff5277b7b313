"""A fixed delay in drawn histories, and each rule of it shown to be needed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.schedules.delay_histories import played
from tests.schedules.histories import Broken
from tests.schedules.variants import LATE_APART, PROFILES, variant
from timerd.core.schedules import changes, overlap
from timerd.model.overlap import OverlapState
from timerd.model.schedules import Definition, Schedule
from timerd.model.settle import Outcome

SEEDS = 40
LATE_SEEDS = (*range(6), 226, 249, 325, 369)
MOST = 400


def from_the_beginning(entry: Schedule, definition: Definition, outcome: Outcome | None, now_ms: int) -> Schedule:
    """The delay counts from when the task came."""
    opened = entry.overlap.open
    return SOUND_NOTED(entry, definition, outcome, opened.instant_ms if opened is not None else now_ms)


def done_while_open(step: overlap.Step, recorded: Schedule) -> bool:
    """Without a further instant there is no tick."""
    return False


def forgotten(state: OverlapState, wanted: changes.Change) -> OverlapState:
    """A change forgets what is open."""
    return OverlapState()


SOUND_NOTED = overlap.noted
VARIANTS: dict[str, tuple[object, str, Any]] = {
    "FROMTHEBEGINNING": ("timerd.core.schedules.opened", "noted", from_the_beginning),
    "DONEWHILEOPEN": ("timerd.core.schedules.overlap.Step", "_follows_an_end", done_while_open),
    "FORGOTTEN": ("timerd.core.schedules.changes", "_overlap", forgotten),
}


@pytest.mark.parametrize("profile", PROFILES)
def test_each_task_comes_so_long_after_the_end_of_the_one_before(profile: str) -> None:
    with variant("") as settings:
        for seed in range(SEEDS):
            played(seed, **{**PROFILES[profile], **settings})


def test_so_does_one_whose_row_is_late_whoever_stands_still() -> None:
    with variant("") as settings:
        for seed in LATE_SEEDS:
            played(seed, **{**LATE_APART, **settings})


@pytest.mark.parametrize("name", VARIANTS)
def test_a_broken_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, value = VARIANTS[name]
    monkeypatch.setattr(f"{place}.{attribute}", value)
    with variant("") as settings:
        for seed in range(MOST):
            try:
                played(seed, **settings)
            except Broken:
                return
    pytest.fail(f"{MOST} histories do not show what is wrong with {name}")
