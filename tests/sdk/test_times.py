"""Instants and spans: never early, never a guessed zone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timerd import Client, Retry, SyncClient, Worker
from timerd.client import InvalidTask, RetryPolicy
from timerd.sdk.values.times import datetime_of_ms, due_of, instant_ms, ms_of_timestamp, span_ms, timestamp_of_ms
from timerd.sdk.working.dispositions import disposition_of
from timerd.v1 import work_service_pb2 as wk


def test_a_naive_datetime_is_refused_with_a_sentence_that_shows_how_to_write_an_aware_one() -> None:
    with pytest.raises(InvalidTask) as refused:
        instant_ms(datetime(2030, 1, 1))
    sentence = str(refused.value)
    assert "no time zone" in sentence
    assert "datetime.now(timezone.utc) + timedelta(minutes=5)" in sentence
    assert "ZoneInfo" in sentence
    assert refused.value.field == "at"


def test_something_that_is_no_datetime_is_refused_in_the_same_way() -> None:
    with pytest.raises(InvalidTask, match="must be a datetime with a time zone, not str"):
        instant_ms("tomorrow")  # type: ignore[arg-type]


def test_the_same_instant_in_two_zones_is_the_same_number() -> None:
    berlin = datetime(2026, 7, 1, 12, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    assert instant_ms(berlin) == instant_ms(datetime(2026, 7, 1, 10, 0, tzinfo=UTC))
    assert instant_ms(datetime(1970, 1, 1, 5, 0, tzinfo=timezone(timedelta(hours=5)))) == 0


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)))
def test_instants_are_rounded_up_by_less_than_a_millisecond(moment: datetime) -> None:
    behind = datetime_of_ms(instant_ms(moment)) - moment
    assert timedelta(0) <= behind < timedelta(milliseconds=1)


@given(st.integers(min_value=-62_135_596_800_000, max_value=253_402_300_799_999))
def test_milliseconds_survive_the_wire(ms: int) -> None:
    assert ms_of_timestamp(timestamp_of_ms(ms)) == ms


@pytest.mark.parametrize(
    ("span", "ms"),
    [(0, 0), (1, 1000), (0.07, 70), (0.0001, 1), (timedelta(seconds=2), 2000), (timedelta(microseconds=1), 1)],
)
def test_spans_are_seconds_or_timedeltas_and_are_rounded_up(span: float | timedelta, ms: int) -> None:
    assert span_ms(span) == ms


TOO_LONG = timedelta(days=10_000 * 365 + 1)
CUT: dict[str, tuple[Callable[[], object], str]] = {
    "retry": (lambda: Retry(timedelta(days=60)), "`delay` must be .*, 0 or more and at most 49 days"),
    "lease": (lambda: Worker(lease=timedelta(days=60)), "`lease` must be .*, more than 0 and at most 49 days"),
    "no lease": (lambda: Worker(lease=0), "`lease` must be .*, more than 0"),
    "timeout": (lambda: Client(timeout=timedelta(days=36_501)), "`timeout` must be .*, more than 0 and at most 36,500"),
    "no timeout": (lambda: SyncClient(timeout=0), "`timeout` must be .*, more than 0"),
    "backoff": (lambda: RetryPolicy(initial_backoff=TOO_LONG).to_proto(), "`initial_backoff` .* below 10,000 years"),
    "longest backoff": (lambda: RetryPolicy(max_backoff=TOO_LONG).to_proto(), "`max_backoff` .* below 10,000 years"),
    "attempt": (lambda: RetryPolicy(attempt_timeout=TOO_LONG).to_proto(), "`attempt_timeout` .* below 10,000 years"),
    "delay": (lambda: due_of(None, TOO_LONG), "`delay` must be .* below 10,000 years"),
}


@pytest.mark.parametrize("place", CUT)
def test_a_span_that_cannot_be_held_exactly_is_refused_where_it_is_given(place: str) -> None:
    make, sentence = CUT[place]
    with pytest.raises(InvalidTask, match=sentence):
        make()


def test_the_longest_spans_are_held_exactly() -> None:
    longest = timedelta(days=49, hours=17)
    assert Retry(longest).delay_ms == span_ms(longest) == 4_294_800_000
    settle = wk.Settle(delay_ms=disposition_of(Retry(longest)).delay_ms)
    assert wk.Settle.FromString(settle.SerializeToString()).delay_ms == 4_294_800_000
    days = RetryPolicy(max_backoff=timedelta(days=3_000_000, microseconds=1)).to_proto().max_backoff
    assert (days.seconds, days.nanos) == (3_000_000 * 86_400, 1_000_000)


@pytest.mark.parametrize("span", [True, -1, float("nan"), float("inf"), "5m", timedelta(seconds=-1)])
def test_a_span_that_is_none_is_refused(span: float) -> None:
    with pytest.raises(InvalidTask, match="0 or more"):
        span_ms(span)


def test_a_due_time_is_an_instant_or_a_delay_and_not_both() -> None:
    with pytest.raises(InvalidTask, match="neither was given"):
        due_of(None, None)
    with pytest.raises(InvalidTask, match="both were given"):
        due_of(datetime.now(UTC), 5)
