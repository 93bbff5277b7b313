"""The one thing that a crash explains beyond repeats: a task was delivered, the crash came before its ack was
confirmed, and a move that was answered after the crash gave the task its new time. A move without an answer may do so
at any time, or never: then the delivery at the old time is the task's own.

The delivery was right when it was made and is within G5 (it had no confirmed ack); the task then fires at the answered
time as another generation, with another delivery_id. It is the same for a cancel (G7), which the verdict knows. A task
that is moved twice may so be delivered at either of its first two times.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from timerd.demo.records import CallRecord, DeliveryRecord, Logs
from timerd.demo.verdict import first_confirmed_ms


def forgotten_by_a_crash(logs: Logs) -> set[DeliveryRecord]:
    times, confirmed_ms = times_of(logs.calls), first_confirmed_ms(logs)
    came = {(each.number, each.fire_at_ms) for each in logs.deliveries}
    excused = set()
    for each in logs.deliveries:
        moved_ms = moved_on_ms(each, times.get(each.number, ()), came)
        if moved_ms is None or each.received_ms < each.fire_at_ms:
            continue
        over_ms = min(moved_ms, confirmed_ms.get(each.delivery_id, math.inf))
        if any(each.received_ms <= kill.ready_ms and kill.killed_ms <= over_ms for kill in logs.kills):
            excused.add(each)
    return excused


def times_of(calls: Iterable[CallRecord]) -> Mapping[int, Sequence[CallRecord]]:
    """The calls that gave a task its times, or may have, in the order of their answers."""
    times: dict[int, list[CallRecord]] = defaultdict(list)
    for call in sorted(calls, key=lambda call: (call.verb != "schedule", call.answered_ms)):
        if call.verb == "schedule" or (call.verb == "move" and call.outcome in ("OK", "UNKNOWN")):
            times[call.number].append(call)
    return times


def moved_on_ms(each: DeliveryRecord, times: Sequence[CallRecord], came: set[tuple[int, int]]) -> float | None:
    """When the first move was answered that took the task from the time of this delivery; infinite where nobody heard
    the answer of the one that did, None where none did. The second of two moves may give it its first time."""
    at = max((at for at, call in enumerate(times) if call.fire_at_ms == each.fire_at_ms), default=len(times))
    later = [call for call in times[at + 1 :] if call.fire_at_ms != each.fire_at_ms]
    answered = [call.answered_ms for call in later if call.outcome == "OK"]
    if answered:
        return answered[0]
    return math.inf if any((call.number, call.fire_at_ms) in came for call in later) else None
