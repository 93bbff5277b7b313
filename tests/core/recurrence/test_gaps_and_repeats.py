"""What becomes of times that do not exist, and of times that come twice, under each policy."""

from __future__ import annotations

import pytest

from tests.core.recurrence.local import compute, cron, upcoming, upcoming_local, utc_ms
from timerd.core.recurrence import Foreseen, WallTimeChange, preview
from timerd.model.recurrence import Calendar, Gap, Repeat, Span, Spec

# Berlin: on 29 March 2026 02:00 is followed by 03:00, on 25 October 02:00 to 03:00 comes twice.
SPRING, AUTUMN = "2026-03-28T12:00", "2026-10-24T12:00"


@pytest.mark.parametrize(
    ("gap", "first"),
    [
        (Gap.AUTO, "2026-03-29 03:00 CEST"),
        (Gap.NEXT, "2026-03-29 03:00 CEST"),
        (Gap.SHIFT, "2026-03-29 03:30 CEST"),
        (Gap.SKIP, "2026-03-30 02:30 CEST"),
    ],
)
def test_a_daily_time_within_the_gap(gap: Gap, first: str) -> None:
    assert upcoming_local(cron("30 2 * * *", "Europe/Berlin", gap=gap), SPRING, 1) == [first]


@pytest.mark.parametrize(
    ("repeat", "utc"),
    [
        (Repeat.AUTO, ["2026-10-25 00:30", "2026-10-26 01:30"]),
        (Repeat.FIRST, ["2026-10-25 00:30", "2026-10-26 01:30"]),
        (Repeat.LAST, ["2026-10-25 01:30", "2026-10-26 01:30"]),
        (Repeat.BOTH, ["2026-10-25 00:30", "2026-10-25 01:30"]),
    ],
)
def test_a_daily_time_that_comes_twice(repeat: Repeat, utc: list[str]) -> None:
    assert upcoming(cron("30 2 * * *", "Europe/Berlin", repeat=repeat), AUTUMN, 2) == utc


def test_a_rare_time_that_comes_twice_is_not_passed_over() -> None:
    """The next one is a year away, so that nearly all of the calendar is passed over."""
    yearly = cron("30 2 25 10 *", "Europe/Berlin", repeat=Repeat.LAST)
    assert upcoming(yearly, "2026-10-24T12:00", 1) == ["2026-10-25 01:30"]


def test_what_would_only_ever_come_in_skipped_gaps_ends() -> None:
    """The last Sunday of March at 02:30: Berlin never has it."""
    sunday = Calendar(
        minutes=(Span(30, 30),), hours=(Span(2, 2),), days=(Span(25, 31),), months=(Span(3, 3),), weekdays=(Span(0, 0),)
    )
    assert compute(Spec((sunday,), zone="Europe/Berlin", gap=Gap.SKIP)).after(utc_ms(SPRING), 1) == []
    assert compute(Spec((sunday,), zone="Europe/Berlin")).after(utc_ms(SPRING), 1) == [utc_ms("2026-03-29T01:00")]


def test_six_fields_are_treated_as_five() -> None:
    five, six = cron("30 2 * * *", "Europe/Berlin"), cron("0 30 2 * * *", "Europe/Berlin")
    for change in (SPRING, AUTUMN):
        assert six.after(utc_ms(change), 3) == five.after(utc_ms(change), 3)


def test_several_times_of_a_gap_become_one() -> None:
    several = cron("0,10,20 2 * * *", "Europe/Berlin")
    assert upcoming_local(several, SPRING, 2) == ["2026-03-29 03:00 CEST", "2026-03-30 02:00 CEST"]


def test_what_comes_every_so_often_leaves_the_gap_out_and_has_no_hole_in_the_repeat() -> None:
    often = cron("*/15 2 * * *", "Europe/Berlin")
    assert upcoming_local(often, SPRING, 1) == ["2026-03-30 02:00 CEST"]
    assert len([each for each in upcoming(often, AUTUMN, 9) if each < "2026-10-25 02:00"]) == 8


@pytest.mark.parametrize(
    ("expression", "every_so_often"),
    [
        ("30 2 * * *", False),
        ("0,15,30,45 2 * * *", False),
        ("0-30 2 * * *", False),
        ("* 30 2 * * *", False),
        ("H 2 * * *", False),
        ("30 * * * *", True),
        ("0 */2 * * *", True),
        ("0-59 2 * * *", True),
        ("0/15 2 * * *", True),
        ("H/15 2 * * *", True),
    ],
)
def test_auto_goes_by_a_star_a_step_or_all_values_in_minute_or_hour(expression: str, every_so_often: bool) -> None:
    often = cron(expression, "Europe/Berlin", gap=Gap.SKIP if every_so_often else Gap.NEXT)
    assert cron(expression, "Europe/Berlin").after(utc_ms(SPRING), 9) == often.after(utc_ms(SPRING), 9)
    twice = cron(expression, "Europe/Berlin", repeat=Repeat.BOTH if every_so_often else Repeat.FIRST)
    assert cron(expression, "Europe/Berlin").after(utc_ms(AUTUMN), 99) == twice.after(utc_ms(AUTUMN), 99)


def test_a_gap_of_half_an_hour() -> None:
    """Lord Howe: on 4 October 2026 02:00 is followed by 02:30."""
    nightly = cron("15 2 * * *", "Australia/Lord_Howe")
    assert upcoming_local(nightly, "2026-10-03T00:00", 2) == ["2026-10-04 02:30 +11", "2026-10-05 02:15 +11"]


def test_a_day_that_does_not_exist() -> None:
    """Apia: 29 December 2011 is followed by the 31st."""
    daily = cron("0 9 * * *", "Pacific/Apia")
    assert upcoming_local(daily, "2011-12-29T12:00", 3) == [
        "2011-12-29 09:00 -10", "2011-12-31 00:00 +14", "2011-12-31 09:00 +14",
    ]  # fmt: skip
    shifted = cron("0 9 * * *", "Pacific/Apia", gap=Gap.SHIFT)
    assert upcoming_local(shifted, "2011-12-29T20:00", 2) == ["2011-12-31 09:00 +14", "2012-01-01 09:00 +14"]


def test_a_midnight_that_does_not_exist_is_still_one_run_of_its_day() -> None:
    """Santiago: on 6 September 2026 the day begins at 01:00."""
    assert upcoming_local(cron("@daily", "America/Santiago"), "2026-09-05T12:00", 2) == [
        "2026-09-06 01:00 -03", "2026-09-07 00:00 -03",
    ]  # fmt: skip


def test_winter_time_as_the_exception() -> None:
    """Dublin has standard time in summer and goes back in winter; its clocks show the same as London's."""
    for change in (SPRING, AUTUMN):
        dublin, london = (
            cron("30 1 * * *", name).after(utc_ms(change), 3) for name in ("Europe/Dublin", "Europe/London")
        )
        assert dublin == london


def test_a_change_of_two_hours() -> None:
    """Troll: on 29 March 2026 01:00 is followed by 03:00."""
    assert upcoming(cron("30 1,2 * * *", "Antarctica/Troll"), "2026-03-28T12:00", 2) == [
        "2026-03-29 01:00", "2026-03-29 23:30",
    ]  # fmt: skip


def test_the_preview_says_what_was_changed() -> None:
    nightly = preview(cron("30 2 * * *", "Europe/Berlin"), utc_ms("2026-03-28T12:00"), 2)
    assert nightly == [
        Foreseen(
            utc_ms("2026-03-29T01:00"),
            "2026-03-29T01:00:00Z",
            "2026-03-29T03:00:00+02:00",
            "2026-03-29T02:30:00",
            WallTimeChange.MOVED,
        ),
        Foreseen(
            utc_ms("2026-03-30T00:30"), "2026-03-30T00:30:00Z", "2026-03-30T02:30:00+02:00", "2026-03-30T02:30:00"
        ),
    ]


@pytest.mark.parametrize(
    ("expression", "gap", "repeat", "after", "changes"),
    [
        ("30 2 * * *", Gap.SHIFT, Repeat.AUTO, SPRING, [WallTimeChange.SHIFTED, WallTimeChange.NONE]),
        (
            "30 2 * * *",
            Gap.SKIP,
            Repeat.AUTO,
            SPRING,
            [WallTimeChange.SKIPPED, WallTimeChange.NONE, WallTimeChange.NONE],
        ),
        ("30 2 * * *", Gap.AUTO, Repeat.AUTO, AUTUMN, [WallTimeChange.FIRST, WallTimeChange.NONE]),
        ("30 2 * * *", Gap.AUTO, Repeat.LAST, AUTUMN, [WallTimeChange.LAST, WallTimeChange.NONE]),
        ("30 2 * * *", Gap.AUTO, Repeat.BOTH, AUTUMN, [WallTimeChange.FIRST, WallTimeChange.LAST]),
    ],
)
def test_the_preview_names_each_change(
    expression: str, gap: Gap, repeat: Repeat, after: str, changes: list[WallTimeChange]
) -> None:
    seen = preview(cron(expression, "Europe/Berlin", gap, repeat), utc_ms(after), 2)
    assert [each.change for each in seen] == changes
