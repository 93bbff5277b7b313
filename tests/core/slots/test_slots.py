"""Each member is in one slot and has one moment, whoever else there is and however many slots there are."""

from __future__ import annotations

from itertools import pairwise
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timerd.core.slots import (
    MAX_PERIOD_MS,
    SPACE,
    CycleSlots,
    Key,
    cycle,
    default_slots,
    divides,
    hash_of,
    hashes_of,
    nearest,
    scaled,
    slot_of,
    slot_range,
    text_of,
)
from timerd.model.errors import Invalid

HASHES = st.integers(0, SPACE - 1) | st.sampled_from([0, 1, SPACE // 2 - 1, SPACE // 2, SPACE - 1])
COUNTS = st.integers(1, 100_000)
PERIODS = st.integers(1_000, MAX_PERIOD_MS)
KEYS = st.integers() | st.uuids() | st.text(st.characters(exclude_categories=["Cs"]))
HOURS_MS = 3_600_000


@given(HASHES, COUNTS)
def test_a_hash_is_in_exactly_one_slot_for_any_number_of_slots(key_hash: int, slots: int) -> None:
    slot = slot_of(key_hash, slots)
    near = [slot - 1, slot, slot + 1]
    assert [j for j in near if slot_range(j, slots).first <= key_hash < slot_range(j, slots).end] == [slot]


@given(COUNTS, st.data())
def test_slots_meet_and_cover_all_hashes(slots: int, data: st.DataObject) -> None:
    slot = data.draw(st.integers(0, slots - 1))
    assert slot_range(slot, slots).end == slot_range(slot + 1, slots).first
    assert (slot_range(0, slots).first, slot_range(slots - 1, slots).end) == (0, SPACE)
    assert slot_of(slot_range(slot, slots).first, slots) == slot
    assert slot_of(slot_range(slot, slots).end - 1, slots) == slot


@given(st.lists(st.integers(0, SPACE - 1), min_size=2, max_size=2).map(sorted))
def test_the_signed_form_keeps_the_order(hashes: list[int]) -> None:
    low, high = (slot_range(slot_of(each, SPACE), SPACE).signed[0] for each in hashes)
    assert (low <= high) == (hashes[0] <= hashes[1])
    assert -(2**63) <= low <= high < 2**63


@given(KEYS, st.sampled_from([1, 2, 15, 480, 960]), st.integers(-(10**12), 10**12))
def test_a_moment_lies_in_the_time_of_its_slot(key: Key, slots: int, origin_ms: int) -> None:
    made = cycle(8 * HOURS_MS, slots, origin_ms=origin_ms)
    within_ms = made.moment_ms(key) - origin_ms
    slot = slot_of(hash_of(key), slots)
    assert slot * made.slot_ms <= within_ms < (slot + 1) * made.slot_ms


@given(st.sets(KEYS, min_size=1, max_size=20), st.sampled_from([1, 96, 480]))
def test_adding_removing_and_another_number_of_slots_move_nobody(keys: set[Key], slots: int) -> None:
    listed = list(keys)
    before = dict(zip(listed, cycle(8 * HOURS_MS).moments_ms(hashes_of(listed)).tolist(), strict=True))
    rest = listed[1:]
    after = dict(zip(rest, cycle(8 * HOURS_MS, slots).moments_ms(hashes_of(rest)).tolist(), strict=True))
    assert after == {key: before[key] for key in rest}


@given(st.lists(HASHES), st.integers(0, SPACE - 1))
def test_many_are_scaled_as_each(hashes: list[int], factor: int) -> None:
    made = scaled(np.array(hashes, np.uint64), factor)
    assert made.astype(np.uint64).tolist() == [each * factor // SPACE for each in hashes]


@given(KEYS, PERIODS)
def test_many_moments_are_those_of_each(key: Key, period_ms: int) -> None:
    made = CycleSlots(period_ms, 1, 1, 5)
    assert made.moments_ms(hashes_of([key])).tolist() == [made.moment_ms(key)]
    assert hashes_of([key]).tolist() == [hash_of(key)]


@given(KEYS, st.sampled_from([1, 2, 3, 8]), st.data())
def test_kinds_of_one_member_are_equally_far_apart_around_the_circle(
    key: Key, places: int, data: st.DataObject
) -> None:
    made = cycle(8 * HOURS_MS, places=places, origin_ms=data.draw(st.integers(0, 10**12)))
    moments = sorted(made.moment_ms(key, place) for place in range(places))
    around = [*moments, moments[0] + made.period_ms]
    assert [b - a for a, b in pairwise(around)] == [made.period_ms // places] * places
    assert all(0 <= each - made.origin_ms < made.period_ms for each in moments)


class UserKey:
    def __init__(self, urn: str) -> None:
        self.urn = urn


def test_slots_of_many_members_are_even() -> None:
    filled = np.bincount(scaled(hashes_of(range(48_000)), 480), minlength=480)
    # The mean is 100; by chance five standard deviations of 10 are out of reach.
    assert (filled.sum(), filled.min() > 50, filled.max() < 150) == (48_000, True, True)


def test_keys_are_what_they_are_as_text() -> None:
    assert text_of(UUID("123E4567-E89B-12D3-A456-426614174000")) == "123e4567-e89b-12d3-a456-426614174000"
    assert (text_of(-7), text_of("ÄB")) == ("-7", "ÄB")
    assert hash_of(42) == hash_of("42")


@pytest.mark.parametrize("key", [True, 1.5, b"42", None, UserKey("urn:isbn:1")])
def test_what_is_no_key_is_refused(key: Key) -> None:
    with pytest.raises(Invalid, match="A key is an int, a UUID or a text"):
        text_of(key)


@pytest.mark.parametrize(
    ("period_ms", "slots"),
    [
        (1_000, 1),
        (119_999, 1),
        (120_000, 2),
        (HOURS_MS, 60),
        (8 * HOURS_MS, 480),
        (24 * HOURS_MS, 1_024),
        (7 * 24 * HOURS_MS, 1_024),
        (999_983, 1),
    ],
)
def test_the_number_of_slots_without_a_choice(period_ms: int, slots: int) -> None:
    assert (default_slots(period_ms), cycle(period_ms).slots) == (slots, slots)


@given(PERIODS.filter(lambda period_ms: period_ms < 10**9))
def test_no_larger_number_of_slots_would_do_without_a_choice(period_ms: int) -> None:
    made = cycle(period_ms)
    assert made.slots * made.slot_ms == period_ms
    larger = range(made.slots + 1, 1_025)
    assert not [n for n in larger if divides(n, period_ms) and period_ms // n >= 60_000]


@pytest.mark.parametrize(
    ("slots", "near"), [(481, (480, 500)), (7, (6, 8)), (0, (1,)), (-3, (1,)), (28_800_001, (28_800_000,))]
)
def test_the_nearest_numbers_are_in_the_sentence_of_refusal(slots: int, near: tuple[int, ...]) -> None:
    assert nearest(slots, 8 * HOURS_MS) == near
    if slots:
        with pytest.raises(Invalid, match=" and ".join(f"{n:,}" for n in near)) as refused:
            cycle(8 * HOURS_MS, slots)
        assert refused.value.field == "slots"


@given(COUNTS, PERIODS.filter(lambda period_ms: period_ms < 10**8))
def test_nearest_numbers_divide_and_none_between_does(slots: int, period_ms: int) -> None:
    near = nearest(slots, period_ms)
    assert all(divides(n, period_ms) for n in near)
    assert not [n for n in range(min(near[0], slots) + 1, slots) if divides(n, period_ms)]


def test_places_that_would_not_be_equally_far_apart_are_refused() -> None:
    with pytest.raises(Invalid, match=r"7 places do not divide .* nearest numbers that do are 6 and 8"):
        cycle(8 * HOURS_MS, places=7)
    with pytest.raises(Invalid, match="There is no place 3"):
        cycle(8 * HOURS_MS, places=3).moment_ms(1, 3)


@pytest.mark.parametrize("period_ms", [0, 999, -1, MAX_PERIOD_MS + 1])
def test_a_period_that_is_none_is_refused(period_ms: int) -> None:
    with pytest.raises(Invalid, match="from 1 s to 100 years"):
        cycle(period_ms)
