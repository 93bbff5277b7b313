"""`python -m examples.nightly_report`: the reports around both changes of the clock."""

from __future__ import annotations

import asyncio

from examples.nightly_report.nights import CHANGES, reports_around
from examples.nightly_report.report import BERLIN


async def main() -> None:
    for name, change in CHANGES.items():
        print(f"{name}: the clock changes on {change:%d %B %Y}")
        for each in await reports_around(change):
            hours = (each.until - each.since).total_seconds() / 3600
            print(f"  {each.until.astimezone(BERLIN):%a %d %b %H:%M %Z}  {hours:g} h  {each.orders} orders")


if __name__ == "__main__":
    asyncio.run(main())
