"""S1 to S5 in drawn histories, and each rule shown to be needed: broken, some history loses or doubles an instant.

`python -m tests.schedules SEED [VARIANT]` replays one with its log; `python -m tests.schedules --many N` plays N.
"""

from __future__ import annotations

import pytest

from tests.schedules.histories import Broken, played
from tests.schedules.overlap_histories import played as played_apart
from tests.schedules.variants import (
    LATE,
    LATE_APART,
    OVERLAP_VARIANTS,
    PROFILES,
    SLOW,
    TAKEN_OVER,
    VARIANTS,
    overlap_variant,
    variant,
)
from timerd.model.overlap import Overlap

SEEDS = 40
# Of a variant, from the seed on at which it was found when this was written.
MOST = 400
FOUND_AT = {"ACKFIRST": 4, "NOFENCE": 49, "NOINSERT": 212, "TICKFIRST": 70, "OLDTICKENDS": 236}
APART = tuple(each for each in Overlap if each is not Overlap.ALLOW)
APART_SEEDS = 20
APART_FOUND_AT = {"NOPOLL": 50, "OPENWITHDRAWN": 270, "POINTTHERE": 587, "MARKSSTAY": 242}
# What was found in the first thousand is played each time: a later place that was reached without a row on the way.
LATE_APART_SEEDS = (*range(6), 159, 242, 397, 587)

# In the last of them one that was cancelled meanwhile is with a worker still.
TAKEN_OVER_SEEDS = (*range(10), 45)


@pytest.mark.parametrize("profile", PROFILES)
def test_each_instant_comes_once(profile: str) -> None:
    with variant("") as settings:
        for seed in range(SEEDS):
            played(seed, **{**PROFILES[profile], **settings})


# What was found in the first thousand is played each time: withdrawn by one and said to have started by another one,
# and written at a later place by who stood still.
LATE_SEEDS = (*range(10), 213, 335, 740, 1216, 1400)


def test_what_is_late_and_withdrawn_comes_once_or_not_at_all() -> None:
    with variant("") as settings:
        for seed in LATE_SEEDS:
            played(seed, **{**LATE, **settings})


def test_an_outage_of_several_windows_loses_nothing() -> None:
    with variant("") as settings:
        for seed in range(SEEDS):
            played(seed, **{**SLOW, **settings})


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


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("policy", APART)
def test_no_two_are_open_at_once(policy: Overlap, profile: str) -> None:
    with variant("") as settings:
        for seed in range(APART_SEEDS):
            played_apart(seed, policy, **{**PROFILES[profile], **settings})


@pytest.mark.parametrize("policy", APART)
def test_no_two_are_open_at_once_whoever_is_late_and_stands_still(policy: Overlap) -> None:
    with variant("") as settings:
        for seed in LATE_APART_SEEDS:
            played_apart(seed, policy, **{**LATE_APART, **settings})


@pytest.mark.parametrize("policy", APART)
def test_no_two_are_open_at_once_though_a_holder_is_gone_that_knew_who_had_one(policy: Overlap) -> None:
    with variant("") as settings:
        for seed in TAKEN_OVER_SEEDS:
            played_apart(seed, policy, **{**TAKEN_OVER, **settings})


def test_a_history_goes_on_as_long_as_something_drains() -> None:
    """Some wait when the last instant is over, and one of them begins every ten seconds."""
    with variant("") as settings:
        played_apart(727, Overlap.BUFFER_ALL, **{**PROFILES["full"], **settings})


@pytest.mark.parametrize("name", OVERLAP_VARIANTS)
def test_a_broken_rule_of_overlaps_is_found(name: str) -> None:
    begin = APART_FOUND_AT.get(name, 0)
    with overlap_variant(name) as (policy, settings):
        for seed in range(begin, begin + MOST):
            try:
                played_apart(seed, policy, **settings)
            except Broken:
                return
    pytest.fail(f"{MOST} histories do not show what is wrong with {name}")
