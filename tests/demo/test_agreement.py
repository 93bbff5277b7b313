"""The ledger agrees with the logs only where every figure does; unknown answers allow a range."""

from __future__ import annotations

import pytest

from tests.demo.test_verdict import Made, as_promised
from timerd.demo.agreement import compare

LEDGER = {"inserted": 6, "acked": 4, "cancelled": 1, "moved": 1}


def disagreeing(made: Made, ledger: dict[str, int]) -> list[str]:
    return [figure.name for figure in compare(made.verdict(), ledger) if not figure.agrees]


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
