"""The queues of a run, their rules, who works on what, and what becomes of each task.

All goes by the number of a task, so that a judge knows it without asking anybody.
"""

from __future__ import annotations

from typing import NamedTuple

from timerd.client import RetryPolicy, SyncClient

LEASE_MS = 5_000
HOLD, HALT, PASS = "order-hold", "order-halt", "order-pass"
RATED = "paced"
# A type with an ordering key and a limit beside.
DOCS = "docs"
ORDERED = (HOLD, HALT, PASS, DOCS)
# As many lines as a queue has parts of all tasks.
_PARTS = (
    *(HOLD,) * 5,
    *(PASS,) * 3,
    *(HALT,) * 3,
    *("hands",) * 2,
    "shared-a",
    "shared-b",
    *(RATED,) * 2,
    *("pdf",) * 2,
    *("excel",) * 2,
    DOCS,
    "rare",
)
QUEUES = tuple(dict.fromkeys(_PARTS))
_KEYS = 6
_HOLDS_MS = {RATED: (5, 30), **dict.fromkeys(ORDERED, (50, 300))}
_HOLD_MS = (100, 500)

RATE_PER_S, BURST = 10, 3


class Limited(NamedTuple):
    """Of all these queues together so many are in hand."""

    name: str
    queues: tuple[str, ...]
    most: int


PARTNER = Limited("partner", ("shared-a", "shared-b", DOCS), 3)
LIMITS = (Limited("hands", ("hands",), 4), PARTNER, Limited("shared-b", ("shared-b",), 1))


class Offer(NamedTuple):
    """What a kind of worker does: queues with a concurrency of their own, and types that share slots."""

    types: tuple[str, ...]
    slots: int
    single: tuple[str, ...] = (HOLD, HALT, PASS, "hands", "shared-a", "shared-b", RATED)
    concurrency: int = 4

    @property
    def queues(self) -> tuple[str, ...]:
        return (*self.types, *self.single)


# The last one alone has the rare type: it is the worker that a fault takes away.
OFFERS = (Offer(("pdf", "excel"), 3), Offer(("excel", DOCS), 3), Offer(("pdf", DOCS, "rare"), 2))


def queue_of(number: int) -> str:
    return _PARTS[number % len(_PARTS)]


def key_of(number: int) -> str:
    """Empty: it has no ordering key."""
    return f"key-{number // 3 % _KEYS}" if queue_of(number) in ORDERED else ""


def hold_ms(queue: str) -> tuple[int, int]:
    return _HOLDS_MS.get(queue, _HOLD_MS)


# -- what fails -------------------------------------------------------------------------------------------------------

# Of a task that fails each time.
MOST_ATTEMPTS = 4
_QUICK = RetryPolicy(initial_backoff=0.1, multiplier=1.5)
_HOPELESS = RetryPolicy(MOST_ATTEMPTS, initial_backoff=0.1, multiplier=1.5)


def _lot(number: int) -> int:
    return number // len(_PARTS) % 23


def is_rejected(number: int) -> bool:
    return _lot(number) == 4


def is_hopeless(number: int) -> bool:
    return _lot(number) == 9


def is_doomed(number: int) -> bool:
    """It ends as a dead letter."""
    return is_rejected(number) or is_hopeless(number)


def fails(number: int, attempt: int) -> bool:
    return is_hopeless(number) or (_lot(number) in (2, 15) and attempt == 1) or (_lot(number) == 19 and attempt <= 2)


def retry_of(number: int) -> RetryPolicy:
    return _HOPELESS if is_hopeless(number) else _QUICK


def put_rules(client: SyncClient) -> None:
    client.queues.put(HOLD, ordering="hold")
    client.queues.put(HALT, ordering="halt")
    client.queues.put(PASS, ordering="pass")
    client.queues.put(RATED, rate=f"{RATE_PER_S}/s", burst=BURST)
    client.limits.put(PARTNER.name, max_in_hand=PARTNER.most)
    own = {limit.name: limit.most for limit in LIMITS}
    for queue in ("hands", *PARTNER.queues):
        listed = [PARTNER.name] if queue in PARTNER.queues else []
        client.queues.put(queue, max_in_hand=own.get(queue), limits=listed)
