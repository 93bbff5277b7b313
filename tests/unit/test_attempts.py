"""The note of attempts on a row: lines that are appended, the last ten."""

from __future__ import annotations

import json

import pytest

from tests.unit.partition_rig import HERE, NOW_MS, START_MS, acquired, control, hot, key, only, page, rows, taken
from timerd.core.partition import WriteCarried, WriteSettled
from timerd.core.taken import Again
from timerd.model.attempts import AttemptEnd, FailedAttempt, attempts_of, gist_of, with_attempt
from timerd.model.codec import dump_json, split_known, with_kept
from timerd.model.settle import Carry, CarryReason, Outcome, last_attempt_of
from timerd.model.storage import DeadLetter
from timerd.model.task import Extra, Template

FIRST = FailedAttempt(1, 5_000, 6_000, AttemptEnd.FAILED, "host 7", "it broke")
TRACE = """Traceback (most recent call last):
  File "a.py", line 3, in f
    g()
  File "b.py", line 7, in g
    raise ValueError(
ValueError: no such order
and more of it
"""


STACK = """
  File "a.py", line 3, in f
    await asyncio.sleep(60)
"""


def test_what_was_appended_is_read() -> None:
    second = FIRST._replace(number=2, sent_ms=0, worker="")
    history = with_attempt(with_attempt("", FIRST), second)
    assert attempts_of(history) == [FIRST, second]
    assert attempts_of("") == []


def test_the_last_ten_are_kept() -> None:
    history = ""
    for number in range(1, 25):
        history = with_attempt(history, FIRST._replace(number=number))
    assert [each.number for each in attempts_of(history)] == list(range(15, 25))


def test_no_text_breaks_the_lines() -> None:
    odd = FIRST._replace(worker="a\tb\nc" * 40, error="x\ty\r\n\u2028z" + "e" * 1_000)
    [read] = attempts_of(with_attempt("", odd))
    assert (read.worker[:6], len(read.worker)) == ("a b ca", 64)
    assert (read.error[:8], len(read.error)) == ("x y zeee", 256)


@pytest.mark.parametrize(
    ("error", "gist"),
    [
        ("", ""),
        ("503 Service Unavailable\nbusy", "503 Service Unavailable busy"),
        (TRACE, "ValueError: no such order and more of it"),
        (TRACE + "\nThe above exception was the direct cause:\n\n" + TRACE, "ValueError: no such order and more of it"),
        (TRACE[: TRACE.index("ValueError:")], ""),
        ("TimeoutError: it had not ended. It was at:" + STACK, "TimeoutError: it had not ended. It was at:"),
    ],
)
def test_of_a_trace_it_is_told_what_follows_the_frames(error: str, gist: str) -> None:
    assert gist_of(error) == gist


def test_a_task_that_never_failed_stores_nothing_of_it() -> None:
    assert Extra("k").to_json() == {"key": "k"}
    assert "history" not in json.loads(letter("").facts())
    guarded = Carry(key(0), CarryReason.GUARD, HERE, 1, 1, 9)
    assert not {"end", "sent_ms", "worker"} & json.loads(guarded.to_json()).keys()


def letter(history: str) -> DeadLetter:
    return DeadLetter(b"id", key(0), HERE, Template("n", "q"), 1, 2, 3, "it broke", b"", "k", history=history)


def test_a_dead_letter_and_a_record_keep_it() -> None:
    told = letter(with_attempt("", FIRST))
    assert DeadLetter.from_facts(b"id", 2, told.facts(), b"") == told
    carry = Carry(key(0), CarryReason.RETRY, HERE, 1, 1, 0, 6_000, "no", AttemptEnd.WORKER_LOST, 5_000, 'a "host"')
    assert Carry.from_json(json.loads(carry.to_json())) == carry


def test_the_release_before_keeps_what_it_does_not_know() -> None:
    """Of a row, byte for byte. Of a record it writes the row again without the attempt that failed last."""
    extra = Extra("k", last_error="it broke", history=with_attempt("", FIRST))
    before = extra.to_json().keys() - {"history"}
    values, kept = split_known(extra.to_json(), before)
    assert dump_json(with_kept(values, kept)) == dump_json(extra.to_json())


def test_a_note_of_the_last_attempt_says_nothing_to_who_takes_over() -> None:
    """It names no row that is there: the row stays EXPIRED, and nothing is written again."""
    machine = hot(rows(key(0), key(1)))
    assert taken(machine) == [key(0), key(1)]
    assert machine.expire([Again(HERE, key(0), NOW_MS, NOW_MS, "no")])[1] == []
    [written] = machine.flush()
    assert isinstance(written, WriteSettled)
    [note] = written.record.carries
    assert (note.source, note.last_error) == (last_attempt_of(key(0)), "no")
    assert last_attempt_of(note.source) == key(0)
    after, _ = acquired(control(closing_ms=NOW_MS - START_MS), [written.record], remembered=10)
    effects = after.page_read(page(rows(key(0), key(1))), NOW_MS)
    assert only(effects, WriteCarried) == []
    assert after.recorded(key(0)) is Outcome.EXPIRED
    assert taken(after) == [key(1)]
