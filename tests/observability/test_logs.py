"""Log lines: JSON for programs, a line for people, few of a kind, never a line break that a caller chose."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from timerd.config import LogConfig
from timerd.observability.logs import ALIKE_S, MOST_ALIKE, Flood, set_up

log = logging.getLogger("timerd.tests")


class Lines:
    """`lines("json")` begins to listen; `lines.read()` is what was said."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self._handlers: list[logging.Handler] = []

    def __call__(self, form: Literal["console", "json"], level: Literal["info", "warning"] = "info") -> None:
        self._handlers.append(set_up(LogConfig(format=form, level=level), self._stream))

    def read(self) -> list[str]:
        return self._stream.getvalue().splitlines()

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.read()]

    def stop(self) -> None:
        for handler in self._handlers:
            logging.getLogger().removeHandler(handler)
        logging.getLogger("timerd").setLevel(logging.NOTSET)


@pytest.fixture
def lines() -> Iterator[Lines]:
    made = Lines()
    yield made
    made.stop()


def test_a_record_is_an_object_on_a_line(lines: Lines) -> None:
    lines("json")
    log.warning("%d tasks are late", 3, extra={"queue": "mails"})
    record = lines.records()[0]
    assert list(record)[:3] == ["time", "level", "event"]
    assert record["time"].endswith("Z")
    assert (record["level"], record["event"], record["logger"]) == ("warning", "3 tasks are late", "timerd.tests")
    assert record["queue"] == "mails"


def test_an_error_is_one_line_with_its_trace(lines: Lines) -> None:
    lines("json")
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.exception("it failed")
    (record,) = lines.records()
    assert "ValueError: two\nlines" in record["exception"]


def test_people_read_a_line(lines: Lines) -> None:
    lines("console")
    log.info("the instances are now %s", "a, b")
    (line,) = lines.read()
    assert "the instances are now a, b" in line
    assert "info" in line


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_name_makes_no_line_of_its_own(lines: Lines, form: Literal["console", "json"]) -> None:
    lines(form)
    log.warning("queue %s", "mails\n2030-01-01 error all is lost\x1b[31m")
    (line,) = lines.read()
    assert "\x1b" not in line


def test_the_level_counts_for_ours(lines: Lines) -> None:
    lines("json", "warning")
    log.info("not this")
    log.warning("this")
    assert [record["event"] for record in lines.records()] == ["this"]


def test_what_is_said_over_and_over_is_counted() -> None:
    now_s = 0.0
    flood = Flood(lambda: now_s)

    def says(line: int) -> logging.LogRecord | None:
        record = logging.LogRecord("timerd", logging.WARNING, "scheduler.py", line, "the store is away", (), None)
        return record if flood.filter(record) else None

    assert sum(says(1) is not None for _ in range(MOST_ALIKE + 7)) == MOST_ALIKE
    assert says(2) is not None
    now_s = ALIKE_S
    again = says(1)
    assert again is not None
    assert again.__dict__["left_out"] == 7
    after = says(1)
    assert after is not None
    assert "left_out" not in after.__dict__
