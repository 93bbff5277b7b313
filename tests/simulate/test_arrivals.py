"""Jobs whose instants are given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.simulate.playing import SMALL, story
from timerd.model.errors import Invalid
from timerd.simulate import SimulatedRun
from timerd.simulate.arrivals import JobArrivals, arrivals, play_arrivals


def played(given: JobArrivals) -> SimulatedRun:
    playing = play_arrivals(replace(SMALL, strategy=None, members=given.members), given)
    try:
        while True:
            next(playing)
    except StopIteration as ended:
        run: SimulatedRun = ended.value
        return run


def test_they_come_when_they_come_and_wait_for_a_worker() -> None:
    given = arrivals([np.array([0.0, 100.0]), np.array([10.0]), np.array([10.0, 399.0, 500.0])])
    assert given.longest_gap_s == 389
    assert story(played(given)) == [
        (0, 0, 0, 30, "DONE"),
        (1, 10, 30, 60, "DONE"),
        (2, 10, 60, 90, "DONE"),
        (0, 100, 100, 130, "DONE"),
        (2, 399, 399, 429, "RUNNING"),
    ]


def test_nobody_has_two() -> None:
    assert arrivals([np.array([5.0])]).longest_gap_s == 0
    assert len(arrivals([]).at_s) == 0


def test_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timerd.simulate.arrivals.MAX_JOBS", 3)
    with pytest.raises(Invalid, match="There are 4 jobs: at most 3 are"):
        played(arrivals([np.arange(4.0)]))
