"""A backfill in drawn histories, with crashes between any two steps, and its rules shown to be needed."""

from __future__ import annotations

import pytest

from tests.schedules.backfill_histories import VARIANTS, played, variant
from tests.schedules.histories import Broken
from tests.schedules.variants import PROFILES

SEEDS = 40
MOST = 400
# Of a variant, from the seed on at which it was found when this was written.
FOUND_AT = {"TICKFIRST": 21, "NOVOID": 32, "NOINSERT": 79, "LASTONLY": 92}


@pytest.mark.parametrize("profile", PROFILES)
def test_each_instant_of_the_span_comes_once(profile: str) -> None:
    for seed in range(SEEDS):
        played(seed, **PROFILES[profile])


@pytest.mark.parametrize("name", VARIANTS)
def test_a_broken_rule_of_a_backfill_is_found(name: str) -> None:
    begin = FOUND_AT.get(name, 0)
    with variant(name):
        for seed in range(begin, begin + MOST):
            try:
                played(seed)
            except Broken:
                return
    pytest.fail(f"{MOST} histories do not show what is wrong with {name}")
