"""What holds for every spec, drawn as the oracle draws them."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.recurrence.local import compute, utc_ms
from tests.oracle.random_specs import drawn_rules, spec_of
from timerd.core.recurrence import SpecError, WallTimeChange, preview
from timerd.model.recurrence import Spec

BEGIN, END = utc_ms("2026-01-01"), utc_ms("2028-01-01")
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York", "Pacific/Apia"])
specs = st.builds(
    lambda seed, zone: spec_of(drawn_rules(Random(seed), (2026, 2027)), zone), st.integers(0, 10_000), ZONES
)
moments = st.integers(BEGIN, END)


def instants(spec: Spec, after_ms: int, count: int) -> list[int]:
    """None of one that is refused."""
    try:
        return compute(spec).after(after_ms, count)
    except SpecError:
        return []


@settings(deadline=None, max_examples=40)
@given(specs, moments)
def test_they_ascend_and_are_all_later(spec: Spec, after_ms: int) -> None:
    found = [after_ms, *instants(spec, after_ms, 30)]
    assert all(sooner < later for sooner, later in pairwise(found))


@settings(deadline=None, max_examples=40)
@given(specs, moments)
def test_many_at_once_are_the_same_as_one_after_the_other(spec: Spec, after_ms: int) -> None:
    at_once = instants(spec, after_ms, 12)
    one_by_one: list[int] = []
    at_ms = after_ms
    while len(one_by_one) < 12 and (found := instants(spec, at_ms, 1)):
        [at_ms] = found
        one_by_one.append(at_ms)
    assert one_by_one == at_once


@settings(deadline=None, max_examples=40)
@given(specs, moments, st.integers(0, 7_200_000))
def test_it_does_not_matter_from_where_one_asks(spec: Spec, after_ms: int, apart_ms: int) -> None:
    found = instants(spec, after_ms, 40)
    later = [each for each in found if each > after_ms + apart_ms]
    assert instants(spec, after_ms + apart_ms, len(later)) == later


@settings(deadline=None, max_examples=40)
@given(specs, moments, moments)
def test_none_is_before_the_start_or_from_the_end_on(spec: Spec, one: int, other: int) -> None:
    start, end = sorted((one, other + 1))
    bounded = Spec(spec.parts, spec.exclude, spec.zone, start, end, gap=spec.gap, repeat=spec.repeat)
    expected = [each for each in instants(spec, start - 1, 50) if each < end]
    assert instants(bounded, 0, 50) == expected


@settings(deadline=None, max_examples=40)
@given(specs, st.binary(min_size=8, max_size=8), moments, st.integers(0, 10_000_000))
def test_a_jitter_keeps_the_order(spec: Spec, uid: bytes, after_ms: int, jitter_ms: int) -> None:
    found = instants(spec, after_ms, 12)
    if not found:
        return
    delayed = compute(Spec(spec.parts, spec.exclude, spec.zone, jitter_ms=jitter_ms))
    fired = [delayed.fire_at_ms(uid, each, later) for each, later in pairwise(found)]
    assert all(each <= fire <= each + jitter_ms for each, fire in zip(found, fired, strict=False))
    assert all(fire < later for fire, later in zip(fired, found[1:], strict=True))


@settings(deadline=None, max_examples=40)
@given(specs, moments)
def test_a_preview_shows_the_same_instants(spec: Spec, after_ms: int) -> None:
    found = instants(spec, after_ms, 20)
    if found:
        shown = [each for each in preview(compute(spec), after_ms, 20) if each.change != WallTimeChange.SKIPPED]
        assert [each.instant_ms for each in shown] == found


@settings(deadline=None, max_examples=40)
@given(specs)
def test_what_is_stored_is_what_was_asked(spec: Spec) -> None:
    assert Spec.from_json(spec.to_json()) == spec
