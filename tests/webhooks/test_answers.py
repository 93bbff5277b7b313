"""What an answer means for the task, and for the target."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timerd.core.dispatch import Action
from timerd.core.sinks.breaker import TargetHealth
from timerd.core.webhooks.answers import ERROR_CHARS, MOST_WAIT_MS, judge_answer, retry_after_ms
from timerd.model.webhooks import HttpAnswer, NoAnswer

# 2030-01-01T00:00:00Z
NOW_MS = 1_893_456_000_000
NONE: frozenset[int] = frozenset()

ANSWERS = [
    (200, "", Action.ACK, TargetHealth.HEALTHY, None),
    (204, "60", Action.ACK, TargetHealth.HEALTHY, None),
    (299, "", Action.ACK, TargetHealth.HEALTHY, None),
    (301, "", Action.NACK, TargetHealth.HEALTHY, None),
    (304, "", Action.NACK, TargetHealth.HEALTHY, None),
    (400, "", Action.NACK, TargetHealth.HEALTHY, None),
    (401, "", Action.NACK, TargetHealth.HEALTHY, None),
    (404, "60", Action.NACK, TargetHealth.HEALTHY, 60_000),
    (408, "", Action.NACK, TargetHealth.FAILING, None),
    (409, "", Action.NACK, TargetHealth.HEALTHY, None),
    (410, "60", Action.REJECT, TargetHealth.GONE, None),
    (425, "", Action.NACK, TargetHealth.FAILING, None),
    (429, "", Action.NACK, TargetHealth.FAILING, None),
    (429, "60", Action.RELEASE, TargetHealth.THROTTLING, 60_000),
    (429, "soon", Action.NACK, TargetHealth.FAILING, None),
    (500, "", Action.NACK, TargetHealth.FAILING, None),
    (502, "7", Action.NACK, TargetHealth.FAILING, 7_000),
    (503, "", Action.NACK, TargetHealth.FAILING, None),
    (503, "Tue, 01 Jan 2030 00:02:00 GMT", Action.RELEASE, TargetHealth.THROTTLING, 120_000),
    (599, "", Action.NACK, TargetHealth.FAILING, None),
    (999, "", Action.NACK, TargetHealth.FAILING, None),
]


@pytest.mark.parametrize(("status", "after", "action", "health", "wait_ms"), ANSWERS)
def test_each_status(status: int, after: str, action: Action, health: TargetHealth, wait_ms: int | None) -> None:
    judged = judge_answer(HttpAnswer(status, after), NOW_MS, NONE)
    assert judged[:3] == (action, health, wait_ms)
    assert judged.error.startswith("" if action is Action.ACK else f"HTTP {status}")


def test_a_status_that_was_named_is_no_failure_that_comes_again() -> None:
    assert judge_answer(HttpAnswer(400), NOW_MS, frozenset((400,)))[:2] == (Action.REJECT, TargetHealth.HEALTHY)
    assert judge_answer(HttpAnswer(501), NOW_MS, frozenset((501,)))[:2] == (Action.REJECT, TargetHealth.FAILING)


def test_no_answer_is_a_failure() -> None:
    judged = judge_answer(NoAnswer("No answer within 15 s."), NOW_MS, NONE)
    assert judged == (Action.NACK, TargetHealth.FAILING, None, "No answer within 15 s.")


WAITS = [
    ("0", 0),
    (" 90 ", 90_000),
    ("86401", MOST_WAIT_MS),
    ("9" * 4_000, MOST_WAIT_MS),
    ("Tue, 01 Jan 2030 00:00:30 GMT", 30_000),
    ("Tue, 01 Jan 2030 01:00:30 +0100", 30_000),
    ("Tue, 01 Jan 2030 00:00:30", 30_000),
    ("Mon, 31 Dec 2029 23:00:00 GMT", 0),
    ("Fri, 31 Dec 9999 23:59:59 GMT", MOST_WAIT_MS),
    ("", None),
    ("-1", None),
    ("1.5", None),
    ("\u0662", None),
    ("soon", None),
]


@pytest.mark.parametrize(("header", "wait_ms"), WAITS, ids=[str(number) for number in range(len(WAITS))])
def test_retry_after(header: str, wait_ms: int | None) -> None:
    assert retry_after_ms(header, NOW_MS) == wait_ms


@given(
    st.text(max_size=60) | st.from_regex(r"[A-Z][a-z]{2}, \d{1,4} [A-Z][a-z]{2} \d{1,6} \d\d:\d\d:\d\d( [-+]\d{4})?")
)
def test_whatever_stands_there_is_bounded(header: str) -> None:
    wait_ms = retry_after_ms(header, NOW_MS)
    assert wait_ms is None or 0 <= wait_ms <= MOST_WAIT_MS


def test_the_error_has_the_beginning_of_the_body_on_one_line() -> None:
    said = judge_answer(HttpAnswer(500, "", b"a\r\n\tb \xff" + b"x" * 4_000), NOW_MS, NONE).error
    assert said.startswith("HTTP 500 Internal Server Error: a b \ufffdx")
    assert len(said) == len("HTTP 500 Internal Server Error: ") + ERROR_CHARS
