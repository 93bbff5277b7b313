"""The report: each night the sum of the orders since the last one, whatever the clock did that night."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from timerd.worker import Delivery, Worker

BERLIN = ZoneInfo("Europe/Berlin")


@dataclass(frozen=True)
class Order:
    placed: datetime
    cents: int


@dataclass(frozen=True)
class Report:
    """Of the orders from `since` to before `until`."""

    since: datetime
    until: datetime
    orders: int
    cents: int


class NightlyReports:
    """What is written is kept by its interval, so a delivery that comes twice writes the same report again."""

    def __init__(self, orders: Iterable[Order]) -> None:
        self._orders: Sequence[Order] = sorted(orders, key=lambda order: order.placed)
        self._written: dict[datetime, Report] = {}

    @property
    def written(self) -> list[Report]:
        return [self._written[until] for until in sorted(self._written)]

    def work(self, worker: Worker) -> None:
        """Declares the schedule and its handler. By default 02:30 comes once on each day, also where the clock has no
        02:30, and where it has two."""
        worker.scheduled("nightly-report", cron="30 2 * * *", zone="Europe/Berlin", catch_up="all")(self._report)

    async def _report(self, delivery: Delivery) -> None:
        """The instants of a schedule are the ends of intervals without gaps: neither 24 hours nor the clock of the
        worker say which orders belong to a report."""
        occurrence = delivery.occurrence
        assert occurrence is not None
        if occurrence.previous_instant is None:
            # The first one: there is no last one that it goes on from.
            return
        since, until = occurrence.previous_instant, occurrence.instant
        chosen = [order for order in self._orders if since <= order.placed < until]
        self._written[until] = Report(since, until, len(chosen), sum(order.cents for order in chosen))
