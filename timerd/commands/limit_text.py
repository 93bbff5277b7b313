"""What the command line says of a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from timerd.commands.output import OutputRecord
from timerd.commands.times import shown_span

if TYPE_CHECKING:
    from timerd.client import QueueLimit


def limit_shown(limit: QueueLimit) -> str:
    """What is said of a queue, or of the queues that list it."""
    rate = f"starts {rate_shown(limit)}, {limit.burst} at once" if limit.rate is not None else ""
    hand = f"has {limit.max_in_hand} in hand" if limit.max_in_hand is not None else ""
    return f"{' and '.join(part for part in (rate, hand) if part)} at most"


def rate_shown(limit: QueueLimit) -> str:
    """As it is given: 100/s, 5/10s."""
    span = shown_span(limit.period)
    return f"{limit.rate}/{span[1:] if len(span) == len('1s') and span[0] == '1' else span}"


def limit_record(limit: QueueLimit | None) -> OutputRecord:
    return {
        "max_in_hand": limit.max_in_hand if limit is not None else None,
        "rate": rate_shown(limit) if limit is not None and limit.rate is not None else None,
        "burst": limit.burst if limit is not None and limit.rate is not None else None,
    }
