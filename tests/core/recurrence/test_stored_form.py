"""A spec as it is stored: small, and readable by the releases before and after."""

from __future__ import annotations

import json

import pytest

from timerd.model.errors import NotUnderstood
from timerd.model.recurrence import (
    At,
    Between,
    Calendar,
    Cron,
    Dates,
    Every,
    Gap,
    Jitter,
    Part,
    Repeat,
    RRule,
    Span,
    Spec,
)

ALL = Spec(
    parts=(
        Cron("0 9 * * MON-FRI"),
        Every(60_000, 5),
        Calendar(hours=(Span(9, 17, 2),)),
        RRule("FREQ=DAILY"),
        At(("2026-01-01T00:00:00",)),
    ),
    exclude=(Cron("0 12 * * *"), Dates(("2026-12-25",)), Between("2026-07-01", "2026-08-01")),
    zone="Europe/Berlin",
    start_ms=1,
    end_ms=2_000_000_000_000,
    jitter_ms=3_000,
    jitter=Jitter.FIXED,
    gap=Gap.SHIFT,
    repeat=Repeat.LAST,
)


def stored(spec: Spec) -> str:
    return json.dumps(spec.to_json(), separators=(",", ":"))


def read(text: str) -> Spec:
    return Spec.from_json(json.loads(text))


def test_what_is_read_is_what_was_written() -> None:
    assert read(stored(ALL)) == ALL
    assert hash(read(stored(ALL))) == hash(ALL)


def test_a_fixed_delay_stands_without_parts() -> None:
    delayed = Spec((), start_ms=1, fixed_delay_ms=60_000)
    assert stored(delayed) == '{"parts":[],"start_ms":1,"fixed_delay_ms":60000}'
    assert read(stored(delayed)) == delayed


def test_what_is_as_by_default_is_not_written() -> None:
    assert stored(Spec((Cron("@daily"),))) == '{"parts":[{"cron":{"expression":"@daily"}}]}'


def test_fields_of_a_later_release_are_kept_and_written_again() -> None:
    later = '{"parts":[{"cron":{"expression":"@daily","flavour":"quartz"}}],"zone":"Asia/Tokyo","calendar":"lunar"}'
    spec = read(later)
    assert spec.parts[0].kept == '{"flavour":"quartz"}'
    assert json.loads(stored(spec)) == json.loads(later)


@pytest.mark.parametrize(
    "text",
    [
        '{"parts":[{"tide":{"port":"Hamburg"}}]}',
        '{"parts":[{"cron":{"expression":"@daily","needs":["moons"]}}]}',
        '{"parts":[],"needs":["moons"]}',
        '{"v":2,"parts":[]}',
    ],
)
def test_what_must_be_understood_and_is_not_is_left_alone(text: str) -> None:
    with pytest.raises(NotUnderstood):
        read(text)


def test_a_policy_of_a_later_release_is_kept_as_its_number() -> None:
    assert json.loads(stored(read('{"parts":[],"gap":7}')))["gap"] == 7


@pytest.mark.parametrize("part", ALL.parts, ids=lambda part: part.kind)
def test_parts_are_values(part: Part) -> None:
    assert {part: 1}[read(stored(Spec((part,)))).parts[0]] == 1
