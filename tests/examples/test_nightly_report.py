"""examples/nightly_report: one report a night over both changes of the clock, and each order in one of them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from examples.nightly_report.__main__ import main
from examples.nightly_report.nights import CHANGES, orders_around, reports_around
from examples.nightly_report.report import BERLIN

README = Path(__file__).parents[2] / "examples" / "nightly_report" / "README.md"


@pytest.mark.parametrize("name", CHANGES)
async def test_each_night_has_one_report_and_each_order_is_in_one(name: str) -> None:
    change = CHANGES[name]
    reports = await reports_around(change)
    nights = [report.until.astimezone(BERLIN).date() for report in reports]
    assert len(nights) == len({*nights}) == 4
    assert change.date() in nights
    assert all(one.until == other.since for one, other in pairwise(reports))
    first, last = reports[0].since, reports[-1].until
    assert sum(report.orders for report in reports) == sum(
        first <= each.placed < last for each in orders_around(change)
    )


async def test_the_page_shows_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    await main()
    assert capsys.readouterr().out in README.read_text(encoding="utf-8")
