"""RFC 5545 rules: stepped in blocks from an anchor brought near, they name what dateutil names from its own anchor."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from itertools import islice
from random import Random

import pytest
from dateutil.rrule import rrulestr

from tests.core.recurrence.local import compute, upcoming, upcoming_local, utc_ms
from timerd.core.recurrence import SpecError
from timerd.core.recurrence.offsets import wall_ms_of, wall_time
from timerd.core.recurrence.rules import rule_times
from timerd.model.recurrence import Cron, RRule, Spec


def drawn_rule(random: Random) -> str:
    """With DTSTART, without COUNT and UNTIL."""
    anchor = datetime(2020, 1, 1) + timedelta(minutes=random.randrange(3 * 525_600))
    frequency = random.choice(("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY"))
    by = [f"FREQ={frequency}", f"INTERVAL={random.choice((1, 1, 2, 3, 7))}"]
    if random.random() < 0.3:
        by.append(f"WKST={random.choice(('MO', 'SU', 'WE'))}")
    if random.random() < 0.3:
        by.append(f"BYMONTH={random.randint(1, 12)},{random.randint(1, 12)}")
    if random.random() < 0.4:
        numbered = frequency == "MONTHLY" and random.random() < 0.5
        by.append(
            f"BYDAY={random.choice(('1MO,-1FR', '2TU')) if numbered else random.choice(('MO,TH', 'SU', 'SA,TU'))}"
        )
    elif random.random() < 0.3 and frequency != "WEEKLY":
        by.append(f"BYMONTHDAY={random.choice(('1,15', '-1', '31', '10,-3'))}")
    if random.random() < 0.3:
        by.append(f"BYHOUR={random.choice(('2', '9,17', '0,1,2,3'))}")
    if random.random() < 0.3:
        by.append(f"BYMINUTE={random.choice(('0', '30', '0,15,59'))}")
    if random.random() < 0.2 and len(by) > 2 and frequency in ("YEARLY", "MONTHLY"):
        by.append(f"BYSETPOS={random.choice(('1', '-1', '2'))}")
    return f"DTSTART:{anchor:%Y%m%dT%H%M%S}\nRRULE:{';'.join(by)}"


def test_random_rules_name_what_dateutil_names() -> None:
    random, compared = Random(5545), 0
    for _ in range(80):
        text = drawn_rule(random)
        try:
            times, _until = rule_times(text, "")
        except SpecError:
            continue
        at_ms: int | None = 0
        for each in islice(rrulestr(text), 40):
            assert at_ms is not None
            at_ms = times.next(at_ms)
            assert at_ms == wall_ms_of(each), text
            compared += 1
    assert compared > 2_000


@pytest.mark.parametrize("text", ["RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO", "RRULE:FREQ=MINUTELY;INTERVAL=7"])
def test_the_phase_is_that_of_dtstart_far_from_it(text: str) -> None:
    times, _until = rule_times(f"DTSTART:20260105T090000\n{text}", "")
    period = timedelta(days=14) if "WEEKLY" in text else timedelta(minutes=7)
    found = times.next(wall_ms_of(datetime(2061, 6, 1)))
    assert found is not None
    assert (wall_time(found) - datetime(2026, 1, 5, 9)) % period == timedelta()


def rule(text: str, zone: str = "UTC") -> Spec:
    return Spec((RRule(text),), zone=zone)


def test_a_rule_without_dtstart_is_at_midnight_unless_it_says_so() -> None:
    weekly = compute(rule("FREQ=WEEKLY;BYDAY=MO,FR;BYHOUR=9"))
    assert upcoming(weekly, "2026-01-01", 3) == ["2026-01-02 09:00", "2026-01-05 09:00", "2026-01-09 09:00"]
    assert upcoming(compute(rule("FREQ=DAILY")), "2026-01-01", 1) == ["2026-01-02 00:00"]


def test_times_are_left_out_and_added_one_by_one() -> None:
    rrule = "DTSTART:20260131T090000\nRRULE:FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=3"
    lines = "EXDATE:20260228T090000\nRDATE:20260401T120000"
    assert upcoming(compute(rule(f"{rrule}\n{lines}")), "2026-01-01", 9) == [
        "2026-01-31 09:00", "2026-03-31 09:00", "2026-04-01 12:00",
    ]  # fmt: skip


def test_until_is_included_as_a_time_of_the_zone_an_instant_or_a_whole_day() -> None:
    for until in ("20260103T090000", "20260103T080000Z", "20260103"):
        daily = compute(rule(f"DTSTART:20260101T090000\nRRULE:FREQ=DAILY;UNTIL={until}", "Europe/Berlin"))
        assert upcoming(daily, "2026-01-01", 9) == ["2026-01-01 08:00", "2026-01-02 08:00", "2026-01-03 08:00"]


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("DTSTART:20200229T000000\nRRULE:FREQ=YEARLY", 9996),
        ("DTSTART:20200131T000000\nRRULE:FREQ=YEARLY;COUNT=10000", 9998),
        ("DTSTART:20200131T000000\nRRULE:FREQ=YEARLY;INTERVAL=50", 9970),
        ("DTSTART:20200131T000000\nRRULE:FREQ=DAILY;INTERVAL=10000", 9987),
        ("DTSTART:20200131T000000\nRRULE:FREQ=MONTHLY;INTERVAL=12;BYDAY=5TU", 9996),
    ],
)
def test_a_rule_goes_on_as_far_as_the_calendar_does(text: str, last: int) -> None:
    times, _until = rule_times(text, "")
    year, at_ms = 0, times.next(0)
    while at_ms is not None:
        year, at_ms = wall_time(at_ms).year, times.next(at_ms)
    assert year == last


def test_gaps_and_repeats_are_those_of_cron() -> None:
    """A rule of a fixed hour as 30 2 * * *, one that comes every so often as */15 * * * *."""
    for after in ("2026-03-28T12:00", "2026-10-24T12:00"):
        nightly, cron = rule("FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "Europe/Berlin"), Cron("30 2 * * *")
        expected = compute(Spec((cron,), zone="Europe/Berlin")).after(utc_ms(after), 3)
        assert compute(nightly).after(utc_ms(after), 3) == expected
        often, cron = rule("FREQ=MINUTELY;BYMINUTE=0,15,30,45", "Europe/Berlin"), Cron("*/15 * * * *")
        expected = compute(Spec((cron,), zone="Europe/Berlin")).after(utc_ms(after), 99)
        assert compute(often).after(utc_ms(after), 99) == expected
    assert upcoming_local(compute(nightly), "2026-03-28T12:00", 1) == ["2026-03-29 03:00 CEST"]


SIXTY = ",".join(map(str, range(60)))
# Rule, and a part of the sentence that refuses it.
REFUSED = {
    "DTSTART:20261301T000000\nRRULE:FREQ=DAILY": "has '20261301T000000' as a time, which there is not",
    "DTSTART:20250229\nRRULE:FREQ=DAILY": "has '20250229' as a time, which there is not",
    "FREQ=DAILY;UNTIL=20300101T250000": "has '20300101T250000' as a time, which there is not",
    "": "has not exactly one RRULE",
    "FREQ=FORTNIGHTLY": "needs FREQ",
    "BYDAY=MO": "needs FREQ",
    "FREQ=DAILY;BYHOUR=24": "give values from 0 to 23",
    "FREQ=DAILY;BYSECOND=60": "give values from 0 to 59",
    "FREQ=DAILY;BYMONTHDAY=--1": "give values from 1 to 31 or -1 down",
    "FREQ=DAILY;BYEASTER=0": "has 'BYEASTER=0'",
    "FREQ=DAILY;FREQ=DAILY": "once at most",
    "FREQ=DAILY;INTERVAL=0": "give a number from 1",
    "FREQ=DAILY;INTERVAL=2": "give one, or name the day",
    "FREQ=DAILY;COUNT=3": "give one, or name the day",
    "FREQ=WEEKLY": "give one, or name the day",
    "FREQ=WEEKLY;BYDAY=1MO": "a number needs FREQ=MONTHLY or YEARLY",
    "FREQ=MONTHLY;BYDAY=99MO": "give weekdays such as MO",
    "FREQ=MONTHLY;BYDAY=MON": "give weekdays such as MO",
    "FREQ=DAILY;WKST=XX": "has WKST=XX",
    "FREQ=DAILY;UNTIL=TOMORROW": "write 20261025T023000",
    "DTSTART:20260101T000000\nRRULE:FREQ=DAILY;COUNT=1;UNTIL=20270101": "give one of them",
    "DTSTART;TZID=Europe/Berlin:20260101T090000\nRRULE:FREQ=DAILY": "those of the schedule's `zone`",
    "DTSTART:20260101T090000Z\nRRULE:FREQ=DAILY": "without Z",
    "RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY": "make several parts",
    "EXRULE:FREQ=DAILY": "has the line EXRULE",
    "DTSTART:99990101T000000\nRRULE:FREQ=DAILY": "give years from 1900 to 2500",
    "DTSTART:20260231T000000\nRRULE:FREQ=DAILY": "has '20260231T000000' as a time, which there is not",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30": "never matches",
    "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30": "never matches",
    "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=6": "never matches",
    "DTSTART:20260105T000000\nRRULE:FREQ=DAILY;INTERVAL=7;BYDAY=TU": "never matches",
    "DTSTART:20260105T000000\nRRULE:FREQ=HOURLY;INTERVAL=24;BYHOUR=1": "cannot be stepped",
    "FREQ=DAILY;BYHOUR=0,1;BYMINUTE="
    + ",".join(map(str, range(60)))
    + ";BYSECOND="
    + ",".join(map(str, range(60))): "1440",
    "FREQ=DAILY;BYDAY=" + ",".join(["MO"] * 2000): "at most 4096",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:60])
def test_what_is_no_rule_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(SpecError, match=re.escape(REFUSED[text])) as caught:
        compute(rule(text))
    assert caught.value.field == "parts[0].rrule.text"
