"""Times as people write them, for the tests of recurrence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from timerd.adapters.zones import zone
from timerd.core.recurrence import Recurrence, recurrence
from timerd.model.recurrence import Cron, Gap, Part, Repeat, Spec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc_ms(text: str) -> int:
    """Of an ISO time of UTC."""
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


def utc(instant_ms: int) -> str:
    """To the minute: 2026-03-29 00:59."""
    return (_EPOCH + timedelta(milliseconds=instant_ms)).strftime("%Y-%m-%d %H:%M")


def local(instant_ms: int, name: str) -> str:
    """With the abbreviation of the zone: 2026-03-29 03:00 CEST."""
    return (_EPOCH + timedelta(milliseconds=instant_ms)).astimezone(zone(name)).strftime("%Y-%m-%d %H:%M %Z")


def compute(spec: Spec, seed: bytes = b"report") -> Recurrence:
    return recurrence(spec, zone(spec.zone), seed)


def cron(expression: str, name: str = "UTC", gap: Gap = Gap.AUTO, repeat: Repeat = Repeat.AUTO) -> Recurrence:
    return compute(Spec((Cron(expression),), zone=name, gap=gap, repeat=repeat))


def parts(*each: Part, zone: str = "UTC") -> Recurrence:
    return compute(Spec(each, zone=zone))


def upcoming(recurrence: Recurrence, after: str, count: int) -> Sequence[str]:
    """In UTC."""
    return [utc(each) for each in recurrence.after(utc_ms(after), count)]


def upcoming_local(recurrence: Recurrence, after: str, count: int) -> Sequence[str]:
    return [local(each, recurrence.spec.zone) for each in recurrence.after(utc_ms(after), count)]
