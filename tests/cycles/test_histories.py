"""S7 in drawn histories with crashes: nobody is lost, has two turns or one after its removal; and each rule of Y4 is
shown to be needed: broken, some history shows it.

`python -m tests.cycles SEED [VARIANT]` replays one with its log; `python -m tests.cycles --many N` plays N.
"""

from __future__ import annotations

import pytest

from tests.cycles.histories import played
from tests.cycles.variants import BUSY, VARIANTS, Settings, variant
from tests.schedules.histories import Broken

SEEDS = 100
# Of a variant, from the seed on at which it was found when this was written.
MOST = 200
FOUND_AT = {"READFIRST": 79, "ADDBLIND": 95, "NOSTICK": 33}


@pytest.mark.parametrize(
    "coming_and_going",
    [{}, BUSY, {**BUSY, "has_places": True}],
    ids=["some come and go", "many do at once", "with two kinds of turns"],
)
def test_each_member_has_its_turn_once(coming_and_going: Settings) -> None:
    with variant("") as settings:
        for seed in range(SEEDS):
            played(seed, **{**settings, **coming_and_going})


@pytest.mark.parametrize("name", VARIANTS)
def test_a_broken_rule_is_found(name: str) -> None:
    begin = FOUND_AT.get(name, 0)
    with variant(name) as settings:
        for seed in range(begin, begin + MOST):
            try:
                played(seed, **settings)
            except Broken:
                return
    pytest.fail(f"{MOST} histories do not show what is wrong with {name}")
