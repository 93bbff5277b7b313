"""Some nights by a clock that is turned: the real parts of timerd, without the waiting."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from examples.nightly_report.report import NightlyReports, Order, Report
from timerd.testing import Server

# In 2030 Berlin leaves out an hour on 31 March, and has one twice on 27 October.
CHANGES = {"spring": datetime(2030, 3, 31, tzinfo=UTC), "autumn": datetime(2030, 10, 27, tzinfo=UTC)}
ORDER_EVERY = timedelta(minutes=10)


def orders_around(change: datetime) -> list[Order]:
    """One of a Euro every ten minutes."""
    begin = change - timedelta(days=3)
    return [Order(begin + n * ORDER_EVERY, 100) for n in range(6 * timedelta(days=6) // timedelta(hours=1))]


async def reports_around(change: datetime) -> list[Report]:
    """Those of the two nights before, of the night itself, and of the two after it."""
    reports = NightlyReports(orders_around(change))
    async with Server(start=change - timedelta(days=3, hours=-12)) as server:
        worker = server.worker()
        reports.work(worker)
        await worker.start()
        await server.advance(days=5)
    return reports.written
