"""S1 to S4 where the ticks of several schedules are worked together."""

from __future__ import annotations

import pytest

from tests.schedules.together_histories import played
from tests.schedules.variants import PROFILES, variant

SEEDS = 40


@pytest.mark.parametrize("profile", PROFILES)
def test_each_instant_of_each_comes_once(profile: str) -> None:
    together = 0
    with variant("") as settings:
        for seed in range(SEEDS):
            together += played(seed, **{**PROFILES[profile], **settings}).together
    assert together > 8 * SEEDS
