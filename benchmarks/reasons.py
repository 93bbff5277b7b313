"""Where docs/understand/performance.md tells of what a figure takes: its profile, trials, and why a floor is missed."""

from __future__ import annotations

# Watching has no floors.
OF_MEASURES = {
    "single": "one-schedule-in-a-message",
    "bulk": "bulk",
    "fire": "burst",
    "lateness": "lateness",
    "memory": "memory-and-disk",
    "disk": "memory-and-disk",
    "growth": "growth",
    "recovery": "recovery",
    "cancel": "cancel-by-id",
    "sustained": "sustained",
    "full_bucket": "full-bucket",
    "hot_second": "hot-second-and-hot-minute",
    "hot_minute": "hot-second-and-hot-minute",
    "abandoned": "backlog",
    "many_queues": "many-of-everything",
    "schedules": "schedules-and-cycles",
    "schedule_instants": "schedules-and-cycles",
    "every_second": "schedules-and-cycles",
    "rosters": "schedules-and-cycles",
    "simulating": "schedules-and-cycles",
    "webhooks": "webhooks",
    "page": "the-page",
    "streams": "redis-streams",
    "receiving": "receive-without-a-stream",
    "calls": "calls",
    "ordering": "keys",
    "fairness": "keys",
}
OF_ROWS = {
    "single": "one-schedule-in-a-message",
    "bulk-5m": "bulk",
    "bulk-1h": "bulk",
    "bulk-30d": "bulk",
    "fire": "burst",
    "lateness": "lateness",
    "cancel": "one-id-in-a-message",
    "cancel-many": "cancel-by-id",
    "memory": "memory-and-disk",
}


def told(section: str | None) -> str:
    """A sentence for where something is missed; empty where no section tells of it."""
    return f"Why it is missed: [performance.md](performance.md#{section})." if section else ""
