"""When a schedule comes, from the simplest form to the edges: a first reading of `timerd.core.recurrence`."""

from __future__ import annotations

from itertools import pairwise, takewhile

from tests.core.recurrence.local import compute, cron, parts, upcoming, upcoming_local, utc_ms
from timerd.model.recurrence import At, Cron, Every, Jitter, Spec


def test_a_cron_expression_names_times_of_the_wall_clock() -> None:
    """Nine in the morning is eight in UTC in winter, and seven in summer."""
    report = cron("0 9 * * MON-FRI", "Europe/Berlin")
    assert upcoming(report, "2026-03-27", 3) == ["2026-03-27 08:00", "2026-03-30 07:00", "2026-03-31 07:00"]


def test_a_period_counts_in_utc_and_knows_no_zone() -> None:
    """So its phase stays what it is over both changes of the clock, and over restarts."""
    poll = parts(Every(6 * 3_600_000, anchor_ms=3_600_000), zone="Europe/Berlin")
    assert upcoming(poll, "2026-03-29T01:00", 3) == ["2026-03-29 07:00", "2026-03-29 13:00", "2026-03-29 19:00"]


def test_listed_times_follow_the_zone_unless_they_carry_an_offset() -> None:
    launch = parts(At(("2026-07-01T09:00:00", "2026-07-01T09:00:00Z")), zone="America/New_York")
    assert upcoming(launch, "2026-01-01", 5) == ["2026-07-01 09:00", "2026-07-01 13:00"]


def test_several_parts_are_one_schedule_and_what_they_share_comes_once() -> None:
    both = parts(Cron("0 */6 * * *"), Every(12 * 3_600_000))
    assert upcoming(both, "2026-01-01", 3) == ["2026-01-01 06:00", "2026-01-01 12:00", "2026-01-01 18:00"]


def test_a_daily_job_runs_once_on_the_day_without_its_hour_and_once_on_the_day_that_has_it_twice() -> None:
    nightly = cron("30 2 * * *", "Europe/Berlin")
    assert upcoming_local(nightly, "2026-03-28", 3) == [
        "2026-03-28 02:30 CET", "2026-03-29 03:00 CEST", "2026-03-30 02:30 CEST",
    ]  # fmt: skip
    assert upcoming_local(nightly, "2026-10-24T12:00", 2) == ["2026-10-25 02:30 CEST", "2026-10-26 02:30 CET"]


def test_a_frequent_job_keeps_its_pace_over_both_changes() -> None:
    quarterly = cron("*/15 * * * *", "Europe/Berlin")
    for change in ("2026-03-29T00:30", "2026-10-25T00:30"):
        found = quarterly.after(utc_ms(change), 9)
        assert [later - sooner for sooner, later in pairwise(found)] == [900_000] * 8


def test_a_schedule_begins_and_ends_and_its_end_is_not_part_of_it() -> None:
    spec = Spec((Cron("@daily"),), start_ms=utc_ms("2026-01-02"), end_ms=utc_ms("2026-01-04"))
    assert upcoming(compute(spec), "2020-01-01", 9) == ["2026-01-02 00:00", "2026-01-03 00:00"]


def test_jitter_is_a_function_of_schedule_and_instant_and_stays_before_the_next_one() -> None:
    spec = Spec((Every(60_000),), jitter_ms=3_600_000)
    each = compute(spec)
    delays = [each.fire_at_ms(b"uid", at_ms, at_ms + 60_000) - at_ms for at_ms in range(0, 6_000_000, 60_000)]
    assert delays == [each.fire_at_ms(b"uid", at_ms, at_ms + 60_000) - at_ms for at_ms in range(0, 6_000_000, 60_000)]
    assert min(delays) >= 0
    assert max(delays) < 60_000
    # Of the whole gap, though the jitter is an hour: nothing gathers at its end.
    assert max(sum(low <= each < low + 6_000 for each in delays) for low in range(0, 60_000, 6_000)) < 25
    fixed = compute(Spec((Every(60_000),), jitter_ms=30_000, jitter=Jitter.FIXED))
    assert len({fixed.fire_at_ms(b"uid", at_ms, None) - at_ms for at_ms in range(0, 6_000_000, 60_000)}) == 1


def test_what_ends_has_fewer_instants_than_were_asked_for() -> None:
    assert parts(At(("2026-01-01T00:00:00",))).after(utc_ms("2026-01-01"), 5) == []


def test_those_up_to_some_instant_are_taken_one_by_one() -> None:
    hourly = cron("0 * * * *").instants(utc_ms("2026-01-01"))
    assert len(list(takewhile(lambda at_ms: at_ms <= utc_ms("2026-01-02"), hourly))) == 24


def test_schedules_that_say_the_same_are_computed_once_unless_they_are_hashed() -> None:
    """So a million of them cost what one does."""
    plain, hashed = Spec((Cron("0 9 * * THU"),)), Spec((Cron("H 9 * * *"),))
    assert compute(plain, b"one") is compute(plain, b"other")
    assert compute(hashed, b"one") is not compute(hashed, b"other")


def test_there_is_nothing_before_1970() -> None:
    assert parts(At(("1969-12-31T00:00:00", "1970-01-01T00:00:00"))).after(-(10**15), 5) == [0]
