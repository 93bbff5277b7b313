"""What the crash of an instance explains: a reminder that was delivered just before it and whose end was not durable
yet may afterwards be moved, or called off as CANCELLED, as if it had not fired. Nothing else: it is neither lost nor
early, and what was delivered after the answer is wrong as ever. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from examples.departures.logs import Call, Crash, Received

# How an instance that fires ended is written down once a second; a busy machine takes longer.
MARK_WINDOW_MS = 5_000


def forgotten(calls: Iterable[Call], received: Iterable[Received], crashes: Sequence[Crash]) -> set[Received]:
    """Deliveries that a call answered later on did not know of, with a crash in between."""
    changes = defaultdict(list)
    for call in calls:
        if (call.verb, call.outcome) in (("move", "OK"), ("cancel", "CANCELLED")):
            changes[call.flight_id].append(call)
    return {
        each
        for each in received
        for call in changes[each.flight_id]
        if _is_of_an_earlier_time(each, call) and any(_lies_between(crash, each, call) for crash in crashes)
    }


def _is_of_an_earlier_time(each: Received, call: Call) -> bool:
    return each.fire_at_ms <= each.received_ms <= call.answered_ms and each.fire_at_ms != call.fire_at_ms


def _lies_between(crash: Crash, each: Received, call: Call) -> bool:
    is_near = crash.killed_ms - MARK_WINDOW_MS <= each.received_ms <= crash.back_ms
    return is_near and crash.killed_ms <= call.answered_ms
