"""S1 to S5 where the ticks of several schedules are worked together, and decided together."""

from __future__ import annotations

import pytest

from tests.schedules.together_histories import LATE_TOGETHER, POLICIES, played
from tests.schedules.variants import PROFILES, variant
from timerd.model.overlap import Overlap

SEEDS = 40
APART_SEEDS = 10
APART = [name for name in POLICIES if name != Overlap.ALLOW]


@pytest.mark.parametrize("profile", PROFILES)
def test_each_instant_of_each_comes_once(profile: str) -> None:
    together = 0
    with variant("") as settings:
        for seed in range(SEEDS):
            together += played(seed, **{**PROFILES[profile], **settings}).together
    assert together > 7 * SEEDS


@pytest.mark.parametrize("profile", [*PROFILES, "late"])
@pytest.mark.parametrize("policies", APART)
def test_no_two_of_one_are_open_at_once(policies: str, profile: str) -> None:
    drawn = {**PROFILES, "late": LATE_TOGETHER}[profile]
    together = 0
    with variant("") as settings:
        for seed in range(APART_SEEDS):
            together += played(seed, POLICIES[policies], **{**drawn, **settings}).together
    assert together > 7 * APART_SEEDS
