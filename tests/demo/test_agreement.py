"""The ledger agrees with the logs only where every figure does; unknown answers allow a range."""

from __future__ import annotations

import pytest

from tests.demo.made import Made, as_promised
from timerd.demo.agreement import compare, may_be_repeated
from timerd.demo.records import CallRecord, Kill, Logs

LEDGER = {"inserted": 6, "acked": 4, "cancelled": 1, "moved": 1}


def disagreeing(made: Made, ledger: dict[str, int], written_again: int = 0) -> list[str]:
    return [figure.name for figure in compare(made.verdict(), ledger, written_again) if not figure.agrees]


def test_the_same_figures_agree() -> None:
    assert disagreeing(as_promised(), LEDGER) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("acked", 3), ("acked", 5), ("cancelled", 0), ("cancelled", 2), ("moved", 0), ("moved", 2),
        ("dead", 1), ("expired", 1), ("purged", 1), ("unexplained", 1), ("unexplained", -1), ("inserted", 4),
    ],
)  # fmt: skip
def test_any_other_figure_does_not(name: str, value: int) -> None:
    assert disagreeing(as_promised(), LEDGER | {name: value}) == [name]


def test_what_a_crash_made_both_may_be_counted_as_either() -> None:
    made = as_promised()
    made.schedule(9, 4990)
    made.deliver(9, 4990)
    made.cancel(9, "CANCELLED", asked=4980, answered=6100)
    assert disagreeing(made, LEDGER | {"acked": 5, "cancelled": 1}) == []
    assert disagreeing(made, LEDGER | {"acked": 4, "cancelled": 2}) == []
    assert disagreeing(made, LEDGER | {"acked": 3, "cancelled": 3}) == ["acked", "cancelled"]


def test_an_unknown_answer_allows_a_range() -> None:
    made = as_promised()
    made.schedule(9, 2000)
    made.deliver(9, 2000, acked=False)
    made.cancel(9, "UNKNOWN")
    assert disagreeing(made, LEDGER | {"acked": 5}) == []
    assert disagreeing(made, LEDGER | {"cancelled": 2}) == []
    assert disagreeing(made, LEDGER | {"cancelled": 3}) == ["cancelled"]


def test_rows_that_were_written_again_may_have_ended_as_their_tasks_or_be_unexplained() -> None:
    assert disagreeing(as_promised(), LEDGER | {"acked": 5, "moved": 2, "unexplained": 1}, written_again=1) == []
    assert disagreeing(as_promised(), LEDGER | {"acked": 6}, written_again=1) == ["acked"]
    assert disagreeing(as_promised(), LEDGER | {"unexplained": 2}, written_again=1) == ["unexplained"]


def test_calls_over_a_kill_or_beyond_the_instant_may_have_been_repeated() -> None:
    calls = (
        CallRecord("schedule", 1, asked_ms=100, answered_ms=200, outcome="OK", fire_at_ms=900),
        CallRecord("schedule", 2, asked_ms=100, answered_ms=901, outcome="OK", fire_at_ms=900),
        CallRecord("cancel", 3, asked_ms=450, answered_ms=500, outcome="CANCELLED"),
        CallRecord("move", 4, asked_ms=601, answered_ms=650, outcome="OK", fire_at_ms=900),
    )
    assert may_be_repeated(Logs(calls=calls, kills=(Kill(500, 600),))) == {2, 3}
