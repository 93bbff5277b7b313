"""Exclusions as covers: what they name by the wall clock, and what they name by instants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, tzinfo
from typing import NamedTuple

from timerd.core.recurrence.calendars import calendar_times
from timerd.core.recurrence.covers import FOR_EVER_MS, Cover, CoveredTogether, Points, Spans, Uncovered
from timerd.core.recurrence.cron import cron_cover
from timerd.core.recurrence.errors import SpecError
from timerd.core.recurrence.offsets import DAY_MS, EPOCH, offset_ms_at
from timerd.core.recurrence.periods import periods
from timerd.core.recurrence.rules import rule_times
from timerd.core.recurrence.times import iso_time, listed
from timerd.model.recurrence import MAX_PARTS, MAX_TIMES, At, Between, Calendar, Cron, Dates, Every, Exclusion, RRule


class Covers(NamedTuple):
    """None where nothing is covered so."""

    walls: Cover | None
    instants: Cover | None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads exclusions for one zone and seed."""

    zone: tzinfo
    seed: bytes

    def covers(self, form: Exclusion, field: str) -> Covers:
        match form:
            case Cron():
                return Covers(cron_cover(form.expression, f"{field}.expression", self.seed), None)
            case Calendar():
                return Covers(calendar_times(form, field), None)
            case RRule():
                return Covers(self._rule(form, field), None)
            case Every():
                return Covers(None, Points(periods(form, field)))
            case At():
                return Covers(*map(Points, listed(form, field)))
            case Dates():
                return Covers(_days(form, field), None)
            case Between():
                return _between(form, field)

    def _rule(self, form: RRule, field: str) -> Cover:
        times, until_ms = rule_times(form.text, f"{field}.text")
        if until_ms is None:
            return Points(times)
        last = until_ms + offset_ms_at(self.zone, until_ms)
        return Points(Uncovered(times, Spans((last + 1,), (FOR_EVER_MS,))))


def covers_of(exclude: Sequence[Exclusion], zone: tzinfo, seed: bytes) -> Covers:
    """Raises SpecError."""
    if len(exclude) > MAX_PARTS:
        raise SpecError("exclude", f"The spec has {len(exclude)} exclusions: at most {MAX_PARTS} are allowed.")
    reader = _Reader(zone, seed)
    found = [reader.covers(form, f"exclude[{place}].{form.kind}") for place, form in enumerate(exclude)]
    return Covers(_together([each.walls for each in found]), _together([each.instants for each in found]))


def _together(covers: Sequence[Cover | None]) -> Cover | None:
    some = [cover for cover in covers if cover is not None]
    return CoveredTogether(some) if some else None


def _days(form: Dates, field: str) -> Spans:
    if not 0 < len(form.days) <= MAX_TIMES:
        raise SpecError(f"{field}.days", f"There are {len(form.days)} days: give 1 to {MAX_TIMES}.")
    return Spans.of(_day_span(text, f"{field}.days[{place}]") for place, text in enumerate(form.days))


def _day_span(text: str, field: str) -> tuple[int, int]:
    first, _, last = text.partition("/")
    try:
        begin, end = (date.fromisoformat(each).toordinal() - EPOCH.toordinal() for each in (first, last or first))
        if begin > end:
            raise ValueError
    except ValueError:
        raise SpecError(
            field, f"{text[:64]!r} is no day: write 2026-12-24, or 2026-12-24/2027-01-01 for all days from the one on."
        ) from None
    return begin * DAY_MS, (end + 1) * DAY_MS


def _between(form: Between, field: str) -> Covers:
    (start, starts_in_utc), (end, ends_in_utc) = (
        iso_time(text, f"{field}.{name}") for name, text in (("start", form.start), ("end", form.end))
    )
    if start >= end or starts_in_utc != ends_in_utc:
        raise SpecError(field, "The range is empty: its end is after its start, and both have an offset or none.")
    spans = Spans((start,), (end,))
    return Covers(None, spans) if starts_in_utc else Covers(spans, None)
