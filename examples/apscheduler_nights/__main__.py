"""`python -m examples.apscheduler_nights`: the runs around both changes of the clock."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from examples.apscheduler_nights.nights import CHANGES, runs_around

BERLIN = ZoneInfo("Europe/Berlin")


def main() -> None:
    for name, change in CHANGES.items():
        print(f"{name}: the clock changes on {change:%d %B %Y}")
        for run in runs_around(change):
            print(f"  {run.astimezone(BERLIN):%a %d %b %H:%M %Z}")


if __name__ == "__main__":
    main()
