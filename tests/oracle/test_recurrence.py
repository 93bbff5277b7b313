"""A sample of what `python -m tests.oracle.recurrence` compares, and the days that it does not come to."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest

from tests.oracle.compare import Compared, compare
from tests.oracle.definition import Asked, Excluded, Rules
from tests.oracle.minutes import DAY, EPOCH, MINUTE, Window, minute_of, tz
from tests.oracle.random_specs import drawn_exclusion, drawn_rules
from tests.oracle.recurrence import main
from timerd.adapters.zones import zone
from timerd.core.recurrence import recurrence
from timerd.model.recurrence import Between, Cron, Every, Gap, Repeat, Spec

# Both changes of one year; half an hour; a day; winter time as the exception; two hours; at midnight.
CHANGES = [
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("Australia/Lord_Howe", "2026-04-05"),
    ("Australia/Lord_Howe", "2026-10-04"),
    ("Pacific/Apia", "2011-12-30"),
    ("Europe/Dublin", "2026-03-29"),
    ("Europe/Dublin", "2026-10-25"),
    ("Antarctica/Troll", "2026-03-29"),
    ("Antarctica/Troll", "2026-10-25"),
    ("America/Santiago", "2026-04-05"),
    ("America/Santiago", "2026-09-06"),
    ("Asia/Kathmandu", "1986-01-01"),
]


@pytest.mark.parametrize(("name", "day"), CHANGES)
def test_each_kind_of_change_is_as_defined(name: str, day: str) -> None:
    begin = minute_of(datetime.fromisoformat(day).replace(tzinfo=UTC))
    window = Window.of(begin - DAY, begin + 2 * DAY, tz(name))
    assert (~window.is_first).any() or window.gaps, "nothing changes here"
    random, found = Random(f"{name} {day}"), Compared()
    for _ in range(60):
        found += compare(drawn_rules(random, (2026, 2026)), name, [window])
    assert found.differences == []
    assert found.instants > 1_000


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
def test_periods_are_minutes_of_utc_less_those_whose_local_time_is_excluded(day: str) -> None:
    begin = minute_of(datetime.fromisoformat(day).replace(tzinfo=UTC))
    window = Window.of(begin - DAY, begin + 2 * DAY, tz("Europe/Berlin"))
    random, excluded = Random(day), 0
    for _ in range(60):
        period, phase, out = random.choice((1, 7, 15, 60, 90, 1440)), random.randrange(60), _drawn_near(random, begin)
        due = (
            (window.minute % period == phase % period) & (window.minute >= window.begin) & (window.minute < window.end)
        )
        left = due & ~out.names(window.walls)
        excluded += int(due.sum() - left.sum())
        spec = Spec((Every(period * 60_000, phase * 60_000),), (out.form,), "Europe/Berlin")
        got = recurrence(spec, zone("Europe/Berlin"), b"").after(window.begin * 60_000 - 1, int(left.sum()) + 1)
        assert [each for each in got if each < window.end * 60_000] == [int(m) * 60_000 for m in window.minute[left]]
    assert excluded > 300


def _drawn_near(random: Random, minute: int) -> Excluded:
    """An hour or so of local time within two days, or what is drawn anyway."""
    if random.random() < 0.3:
        return drawn_exclusion(random, (2026, 2026))
    start = minute + random.randrange(-DAY, DAY)
    end = start + random.randrange(1, 600)
    form = Between(*((EPOCH + each * MINUTE).replace(tzinfo=None).isoformat() for each in (start, end)))
    return Excluded(form, lambda walls: (walls.wall >= start) & (walls.wall < end))


@pytest.mark.parametrize(("day_has_it", "differences"), [(False, 0), (True, 1)])
def test_an_exclusion_may_be_refused_only_where_it_never_comes(day_has_it: bool, differences: int) -> None:
    window = Window.of(0, DAY, tz("UTC"))
    hourly = Asked(Cron("0 * * * *"), lambda walls: walls.minute == 0, [0], every_so_often=True)
    never = Excluded(Cron("* 23 */20 JAN 0#5"), lambda walls: (walls.minute == 30) & day_has_it)
    found = compare(Rules([hourly], [never], Gap.AUTO, Repeat.AUTO), "UTC", [window])
    assert (found.refused, len(found.differences)) == (1, differences)


def test_the_long_form_compares_what_it_is_told_to(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--expressions", "2", "--zones", "1", "--weeks", "0", "--jobs", "1"]) == 0
    assert "2 expressions in zones" in capsys.readouterr().out
