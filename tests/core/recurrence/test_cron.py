"""Cron expressions: what each sign means, and how the ones are refused that mean nothing."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from tests.core.recurrence.local import compute, cron, upcoming
from timerd.core.recurrence import SpecError
from timerd.core.recurrence.cron import cron_times, refuse_long_steps, resolved
from timerd.core.recurrence.offsets import wall_ms_of, wall_time
from timerd.model.recurrence import Cron, Spec

# Expression, and its next three times after Thursday, 1 January 2026, 00:00.
MEANINGS = {
    "15 10 * * *": ["2026-01-01 10:15", "2026-01-02 10:15", "2026-01-03 10:15"],
    "*/20 9 * * *": ["2026-01-01 09:00", "2026-01-01 09:20", "2026-01-01 09:40"],
    "5/20 9 * * *": ["2026-01-01 09:05", "2026-01-01 09:25", "2026-01-01 09:45"],
    "0 9-17/4 * * *": ["2026-01-01 09:00", "2026-01-01 13:00", "2026-01-01 17:00"],
    "0 9 * JAN-FEB MON,wed": ["2026-01-05 09:00", "2026-01-07 09:00", "2026-01-12 09:00"],
    "0 9 * * FRI-SUN": ["2026-01-02 09:00", "2026-01-03 09:00", "2026-01-04 09:00"],
    "0 0 L * *": ["2026-01-31 00:00", "2026-02-28 00:00", "2026-03-31 00:00"],
    "0 0 LW * *": ["2026-01-30 00:00", "2026-02-27 00:00", "2026-03-31 00:00"],
    "0 0 * * 5L": ["2026-01-30 00:00", "2026-02-27 00:00", "2026-03-27 00:00"],
    "0 0 * * MON#1": ["2026-01-05 00:00", "2026-02-02 00:00", "2026-03-02 00:00"],
    "0 0 13 * FRI": ["2026-01-02 00:00", "2026-01-09 00:00", "2026-01-13 00:00"],
    "0 0 */2 * FRI": ["2026-01-09 00:00", "2026-01-23 00:00", "2026-02-13 00:00"],
    "0 0 ? * MON": ["2026-01-05 00:00", "2026-01-12 00:00", "2026-01-19 00:00"],
    "30-30/10 9 * * *": ["2026-01-01 09:30", "2026-01-02 09:30", "2026-01-03 09:30"],
    "0 0 29 2 *": ["2028-02-29 00:00", "2032-02-29 00:00", "2036-02-29 00:00"],
    "@yearly": ["2027-01-01 00:00", "2028-01-01 00:00", "2029-01-01 00:00"],
    "@monthly": ["2026-02-01 00:00", "2026-03-01 00:00", "2026-04-01 00:00"],
    "@weekly": ["2026-01-04 00:00", "2026-01-11 00:00", "2026-01-18 00:00"],
    "@daily": ["2026-01-02 00:00", "2026-01-03 00:00", "2026-01-04 00:00"],
    "@Hourly": ["2026-01-01 01:00", "2026-01-01 02:00", "2026-01-01 03:00"],
}


@pytest.mark.parametrize("expression", MEANINGS)
def test_each_sign_means_what_cron_means_by_it(expression: str) -> None:
    assert upcoming(cron(expression), "2026-01-01", 3) == MEANINGS[expression]


def test_of_six_fields_the_first_is_the_seconds() -> None:
    found = cron("*/30 5 9 * * *").after(wall_ms_of(datetime(2026, 1, 1)), 3)
    assert [str(wall_time(each)) for each in found] == [
        "2026-01-01 09:05:00", "2026-01-01 09:05:30", "2026-01-02 09:05:00",
    ]  # fmt: skip


# Expression, and a part of the sentence that refuses it.
REFUSED = {
    "": "has 0 fields",
    "* * * *": "has 4 fields",
    "0 0 12 * * ? 2026": "has 7 fields: give five, or six with the seconds first",
    "60 * * * *": "has '60' as minute",
    "* 24 * * *": "has '24' as hour",
    "*/0 * * * *": "has '*/0' as minute",
    "* * 0 * *": "has '0' as day of month",
    "* * * 13 *": "has '13' as month",
    "* * * * 8": "has '8' as day of week",
    "* * * * MON#6": "has 'MON#6' as day of week",
    "50-10 * * * *": "ranges that ascend",
    "0 0 30 2 *": "never matches within 50 years",
    "0 0 31 APR,JUN *": "never matches within 50 years",
    "0 0 31 6 */2": "never matches within 50 years",
    "@reboot": "is none of @yearly",
    "@every 5m": "is a part of the form `every`",
    "CRON_TZ=Europe/Berlin 0 9 * * *": "give it in `zone`",
    "H(50-70) * * * *": "give a range within 0 to 59",
    "H/0 * * * *": "the step is from 1 to 60",
    "H/61 * * * *": "the step is from 1 to 60",
    "H-30 * * * *": "as minute",
    "HH * * * *": "as minute",
    "1,,2 * * * *": "as minute",
    "1" * 300 + " * * * *": "at most 256 are allowed",
    "\N{ARABIC-INDIC DIGIT ONE} * * * *": "as minute",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_what_means_nothing_is_refused_with_the_field_and_what_is_allowed(expression: str) -> None:
    with pytest.raises(SpecError, match=re.escape(REFUSED[expression])) as caught:
        compute(Spec((Cron("0 9 * * *"), Cron(expression))))
    assert caught.value.field == "parts[1].cron.expression"


def test_h_is_chosen_by_the_schedule_and_stays() -> None:
    """A thousand schedules of one expression are spread over the hour, each at a minute of its own for ever."""
    chosen = [resolved("H H * * *", b"%d" % n) for n in range(1000)]
    assert chosen == [resolved("H H * * *", b"%d" % n) for n in range(1000)]
    minutes = {int(text.split()[1]) for text in chosen}
    assert minutes == set(range(60))
    assert {int(text.split()[2]) for text in chosen} == set(range(24))
    assert any(int(text.split()[1]) % 24 != int(text.split()[2]) for text in chosen), "fields are chosen apart"


def test_h_keeps_within_its_range_and_steps_from_where_it_begins() -> None:
    for n in range(200):
        seed = b"%d" % n
        within = {wall_time(each).minute for each in compute(Spec((Cron("H(10-19) * * * *"),)), seed).after(0, 50)}
        assert len(within) == 1
        assert within <= set(range(10, 20))
        stepped = sorted({wall_time(each).minute for each in compute(Spec((Cron("H/15 * * * *"),)), seed).after(0, 50)})
        assert [later - stepped[0] for later in stepped] == [0, 15, 30, 45]
        once = compute(Spec((Cron("H/60 H * * H"),)), seed).after(0, 3)
        assert len({wall_time(each).time() for each in once}) == 1
        assert once[1] - once[0] == 7 * 86_400_000


def test_a_day_that_is_hashed_is_one_that_every_month_has() -> None:
    days = {int(resolved("0 0 H * *", b"%d" % n).split()[3]) for n in range(500)}
    assert days == set(range(1, 29))


NUMBERS = st.sampled_from(["*", "0", "7", "*/5", "*/7", "1-5", "3,4,9", "2-11/3"])
DAYS = st.sampled_from(["*", "1", "29", "31", "L", "LW", "*/10", "10-20"])
WEEKDAYS = st.sampled_from(["*", "0", "7", "MON-FRI", "2#3", "6L", "*/3"])


@given(NUMBERS, NUMBERS, NUMBERS, DAYS, st.sampled_from(["*", "2", "1-3", "*/4"]), WEEKDAYS, st.integers(0, 1 << 31))
def test_the_steps_are_those_of_cronsim(
    second: str, minute: str, hour: str, day: str, month: str, weekday: str, at_s: int
) -> None:
    """Which goes on an hour or a second at a time, where ours goes by tables."""
    expression = f"{second} {minute} {hour} {day} {month} {weekday}"
    try:
        ours = cron_times(expression, "", b"")
    except SpecError:
        return
    theirs = CronSim(expression, datetime(1970, 1, 1) + timedelta(seconds=at_s))
    at_ms: int | None = at_s * 1000 + 999
    for _ in range(5):
        assert at_ms is not None
        at_ms = ours.next(at_ms)
        assert at_ms == wall_ms_of(next(theirs))


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("*/90 * * * *", "has '*/90' as minute, of which there are only 60: give a step from 1 to 60"),
        ("0 */25 * * *", "as hour, of which there are only 24"),
        ("0 0 1/32 * *", "as day of month, of which there are only 31"),
        ("0 0 1 */0013 *", "as month, of which there are only 12"),
        ("0 0 * * MON-FRI/8", "as day of week, of which there are only 7"),
        ("*/61 * * * * *", "as second, of which there are only 60"),
        ("5,7-9/61 * * * *", "has '5,7-9/61' as minute"),
    ],
)
def test_a_step_beyond_its_field_is_refused_where_it_is_asked_for(expression: str, says: str) -> None:
    with pytest.raises(SpecError, match=re.escape(says)):
        refuse_long_steps(expression, "cron")
    # What was stored by an earlier release goes on.
    assert cron(expression).after(0, 1)


def test_a_step_as_long_as_its_field_is_none_too_long() -> None:
    for expression in ("*/60 * * * *", "0 */24 * * *", "0 0 */31 * *", "0 0 1 */12 *", "0 0 * * */7", "@daily", "1 2"):
        refuse_long_steps(expression, "cron")
