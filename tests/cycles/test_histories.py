"""S7 in drawn histories with crashes: nobody is lost, has two turns or one after its removal; and each rule of Y4 is
shown to be needed: broken, some history shows it.

`python -m tests.cycles SEED [VARIANT]` replays one with its log; `python -m tests.cycles --many N` plays N.
"""

from __future__ import annotations

import pytest

from tests.cycles.histories import played
from tests.cycles.variants import VARIANTS, variant
from tests.schedules.histories import Broken
from tests.schedules.variants import FRAGILE

SEEDS = 40
# Of a variant, from the seed on at which it was found when this was written.
MOST = 300
FOUND_AT: dict[str, int] = {}


@pytest.mark.parametrize("profile", ["anywhere", "fragile"])
def test_each_member_has_its_turn_once(profile: str) -> None:
    with variant("") as settings:
        for seed in range(SEEDS):
            played(seed, **settings, **({**FRAGILE, "changes": 12} if profile == "fragile" else {}))


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
