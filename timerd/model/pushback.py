"""What a handler says that was told to wait by what it has asked, as by HTTP 429."""

from __future__ import annotations

from typing import NamedTuple

# Nobody holds a limit for longer by one word.
MOST_AFTER_MS = 3_600_000


class Pushback(NamedTuple):
    """Nothing that the limit holds may start for so long. `limit`: its name; empty: the queue's own. `by_key`: of the
    queue nothing of the task's limit key."""

    limit: str
    after_ms: int
    by_key: bool = False
