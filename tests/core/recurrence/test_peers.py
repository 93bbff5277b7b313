"""What other schedulers document about their times: here it is as docs/understand/schedule-edges.md says."""

from __future__ import annotations

import pytest

from tests.core.recurrence.local import compute, cron, parts, upcoming, upcoming_local, utc_ms
from timerd.core.recurrence import SpecError
from timerd.model.recurrence import Calendar, Cron, Every, Gap, Repeat, RRule, Span, Spec

NEW_YORK = "America/New_York"
DAY_MS = 86_400_000


def test_a_time_that_does_not_exist() -> None:
    """New York: on 8 March 2026 02:00 is followed by 03:00."""
    nightly = cron("30 2 * * *", NEW_YORK)
    assert upcoming_local(nightly, "2026-03-07T12:00", 2) == ["2026-03-08 03:00 EDT", "2026-03-09 02:30 EDT"]
    skipping = cron("30 2 * * *", NEW_YORK, gap=Gap.SKIP)
    assert upcoming_local(skipping, "2026-03-07T12:00", 1) == ["2026-03-09 02:30 EDT"]


def test_a_time_that_comes_twice() -> None:
    """New York: on 1 November 2026 01:00 to 02:00 comes twice."""
    nightly = cron("30 1 * * *", NEW_YORK)
    assert upcoming_local(nightly, "2026-10-31T12:00", 2) == ["2026-11-01 01:30 EDT", "2026-11-02 01:30 EST"]
    twice = cron("30 1 * * *", NEW_YORK, repeat=Repeat.BOTH)
    assert upcoming_local(twice, "2026-10-31T12:00", 2) == ["2026-11-01 01:30 EDT", "2026-11-01 01:30 EST"]


def test_a_frequent_time_in_the_repeated_hour() -> None:
    quarterly = cron("*/15 * * * *", NEW_YORK)
    found = quarterly.after(utc_ms("2026-11-01T05:00"), 8)
    assert found == [utc_ms("2026-11-01T05:00") + 900_000 * n for n in range(1, 9)]


def test_a_day_as_a_period() -> None:
    daily = parts(Every(DAY_MS, anchor_ms=utc_ms("2026-03-07T14:00")), zone=NEW_YORK)
    assert upcoming_local(daily, "2026-03-07", 2) == ["2026-03-07 09:00 EST", "2026-03-08 10:00 EDT"]


def test_the_phase_of_a_period() -> None:
    offset = Every(60_000, anchor_ms=1_500)
    assert parts(offset).after(0, 2) == [1_500, 61_500]
    assert compute(Spec((offset,), start_ms=30_000)).after(0, 1) == [61_500]


def test_monthly_from_the_last_of_january() -> None:
    monthly = parts(RRule("DTSTART:20260131T090000\nRRULE:FREQ=MONTHLY"))
    assert upcoming(monthly, "2026-01-01", 3) == ["2026-01-31 09:00", "2026-03-31 09:00", "2026-05-31 09:00"]
    last = parts(RRule("FREQ=MONTHLY;BYMONTHDAY=-1;BYHOUR=9"))
    assert upcoming(last, "2026-01-01", 3) == ["2026-01-31 09:00", "2026-02-28 09:00", "2026-03-31 09:00"]


def test_six_fields() -> None:
    assert upcoming(cron("0 30 9 * * *"), "2026-01-01", 1) == ["2026-01-01 09:30"]
    with pytest.raises(SpecError, match="as day of week"):
        cron("30 9 * * * 2026")


def test_day_of_month_and_weekday() -> None:
    assert upcoming(cron("0 9 13 * FRI"), "2026-02-07", 2) == ["2026-02-13 09:00", "2026-02-20 09:00"]
    friday = Calendar(hours=(Span(9, 9),), days=(Span(13, 13),), weekdays=(Span(5, 5),))
    assert upcoming(parts(friday), "2026-02-07", 2) == ["2026-02-13 09:00", "2026-03-13 09:00"]


def test_a_range_that_goes_down() -> None:
    for expression in ("0 22-2 * * *", "0 9 * NOV-FEB *", "0 9 * * FRI-MON"):
        with pytest.raises(SpecError, match="ranges that ascend"):
            cron(expression)
    with pytest.raises(SpecError, match="not above the last"):
        parts(Calendar(hours=(Span(22, 2),)))
    assert upcoming(cron("0 9 * * SAT-SUN"), "2026-01-01", 2) == ["2026-01-03 09:00", "2026-01-04 09:00"]


def test_a_zone_in_the_expression() -> None:
    for prefix in ("TZ", "CRON_TZ"):
        with pytest.raises(SpecError, match="give it in `zone`"):
            cron(f"{prefix}=America/New_York 0 9 * * *")


def test_the_end_is_not_included() -> None:
    bounded = Spec((Cron("0 9 * * *"),), start_ms=utc_ms("2026-01-01T09:00"), end_ms=utc_ms("2026-01-02T09:00"))
    assert upcoming(compute(bounded), "2025-01-01", 9) == ["2026-01-01 09:00"]


def test_a_question_mark() -> None:
    for expression in ("0 9 ? * *", "0 9 * * ?", "0 9 ? * ?"):
        assert upcoming(cron(expression), "2026-01-01", 1) == ["2026-01-01 09:00"]
    with pytest.raises(SpecError, match="as minute"):
        cron("? 9 * * *")
