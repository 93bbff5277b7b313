"""The first hour of each of three people, by what the docs say to type: their commands and programs, real processes.

`make first-hours` does the same from a fresh clone, with nothing installed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.first_hour.people import PEOPLE, spent, told

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]


@pytest.mark.parametrize("person", PEOPLE)
def test_the_first_hour(person: str, tmp_path: Path) -> None:
    desk = spent(person, tmp_path / "desk")
    print(told(person, desk))
    if len(desk.seconds) < 2:
        pytest.skip(f"of {person} all is left out: {desk.left_out}")
