"""Spans and instants as people type them. A time without an offset is refused: the machine that reads it may stand
in another zone than the person who wrote it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from timerd.commands.failures import WrongInput

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
_SPAN = re.compile(rf"(?:{_PART.pattern})+")
# What a datetime can hold is about 292 million years less; this is what a task may be ahead.
_LONGEST_MS = 200 * 365 * _UNIT_MS["d"]
# Beyond it a number of days says less than the date.
_FAR_S = 99 * 86_400


def parse_span(text: str) -> timedelta:
    compact = text.strip().lower().replace(" ", "")
    if not _SPAN.fullmatch(compact):
        raise WrongInput(
            f"{text!r} is not a span of time: write numbers with units (ms, s, m, h, d, w), "
            "for example 10s, 5m, 2h30m or 1d."
        )
    total_ms = sum(float(number) * _UNIT_MS[unit] for number, unit in _PART.findall(compact))
    if total_ms > _LONGEST_MS:
        raise WrongInput(f"{text!r} is too long: at most 200 years (73000d) are allowed.")
    return timedelta(milliseconds=total_ms)


def parse_instant(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise WrongInput(
            f"{text!r} is not an ISO 8601 time: write for example 2030-01-31T09:00:00Z or 2030-01-31T09:00+01:00."
        ) from None
    if moment.tzinfo is None:
        raise WrongInput(_two_forms(text, moment))
    return moment


def _two_forms(text: str, moment: datetime) -> str:
    utc = f"{moment.isoformat()}Z"
    try:
        local = moment.astimezone().isoformat()
    except (OverflowError, ValueError):
        local = f"{moment.isoformat()}+00:00"
    return (
        f"{text!r} has no offset, so it names no instant: write {local} if you mean this machine's local time, "
        f"or {utc} if you mean UTC."
    )


def parse_moment(text: str) -> datetime:
    """An ISO time, `now`, or a span from now such as 2h."""
    compact = text.strip().lower()
    if compact == "now":
        return datetime.now(UTC)
    if _SPAN.fullmatch(compact):
        return datetime.now(UTC) + parse_span(compact)
    return parse_instant(text)


def parse_due(delay: str | None, at: str | None) -> tuple[datetime | None, timedelta | None]:
    """(at, delay), exactly one of them given."""
    if (delay is None) == (at is None):
        what = "Neither --in nor --at was given" if at is None else "Both --in and --at were given"
        raise WrongInput(f"{what}: say when with one of them, for example --in 10m or --at 2030-01-31T09:00:00Z.")
    return (parse_instant(at), None) if at is not None else (None, parse_span(delay or ""))


def iso_of(moment: datetime) -> str:
    """In UTC with milliseconds: what scripts compare."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown(moment: datetime) -> str:
    """In this machine's zone, with its offset: what people read."""
    return moment.astimezone().isoformat(sep=" ", timespec="milliseconds")


def shown_twice(moment: datetime) -> str:
    """As an instant and from now: for one record, which has the room."""
    return f"{shown(moment)} ({relative(moment, datetime.now(UTC))})"


def short_iso(moment: datetime) -> str:
    """In UTC, without seconds or milliseconds that are zero: 2030-01-31T09:00Z."""
    return re.sub(r"(:00)?\.000Z$", "Z", iso_of(moment))


def relative(moment: datetime, now: datetime) -> str:
    """From now, in two units at most: `in 3 h 20 m`, `2 m ago`; the date where it is months away."""
    rest_s = round(abs((moment - now).total_seconds()))
    if rest_s > _FAR_S:
        return f"{moment.astimezone():%Y-%m-%d}"
    if not rest_s:
        return "now"
    parts = []
    for unit in ("d", "h", "m", "s"):
        number, rest_s = divmod(rest_s, _UNIT_MS[unit] // 1000)
        parts.append((number, unit))
    first = next(index for index, (number, _) in enumerate(parts) if number)
    span = " ".join(f"{number} {unit}" for number, unit in parts[first : first + 2] if number)
    return f"in {span}" if moment > now else f"{span} ago"


def shown_span(span: timedelta) -> str:
    rest_ms = round(span.total_seconds() * 1000)
    if rest_ms < _UNIT_MS["m"]:
        return f"{rest_ms / 1000:g}s"
    parts = []
    for unit in ("d", "h", "m", "s"):
        number, rest_ms = divmod(rest_ms, _UNIT_MS[unit])
        parts += [f"{number}{unit}"] if number else []
    return "".join(parts[:2])
