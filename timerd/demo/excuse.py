"""The one thing that a crash explains beyond repeats: a task was delivered, the crash came before its ack was
confirmed, and a move that was answered after the crash gave the task its new time. A move without an answer may do so
at any time, or never: then the delivery at the old time is the task's own.

The delivery was right when it was made and is within G5 (it had no confirmed ack); the task then fires at the answered
time as another generation, with another delivery_id. It is the same for a cancel (G7), which the verdict knows.
"""

from __future__ import annotations

import math

from timerd.demo.records import Delivery, Logs
from timerd.demo.verdict import first_confirmed_ms


def forgotten_by_a_crash(logs: Logs) -> set[Delivery]:
    scheduled = {call.number: call for call in logs.calls if call.verb == "schedule"}
    moved = {call.number: call for call in logs.calls if call.verb == "move" and call.outcome in ("OK", "UNKNOWN")}
    confirmed_ms = first_confirmed_ms(logs)
    came = {(each.number, each.fire_at_ms) for each in logs.deliveries}
    excused = set()
    for each in logs.deliveries:
        move, schedule = moved.get(each.number), scheduled.get(each.number)
        if move is None or schedule is None:
            continue
        if move.outcome == "UNKNOWN" and (move.number, move.fire_at_ms) not in came:
            continue
        acked_ms = confirmed_ms.get(each.delivery_id, math.inf)
        is_of_the_old_time = each.fire_at_ms == schedule.fire_at_ms != move.fire_at_ms
        is_early = each.received_ms < each.fire_at_ms
        moved_ms = move.answered_ms if move.outcome == "OK" else math.inf
        crashed = any(each.received_ms <= k.ready_ms and k.killed_ms <= min(moved_ms, acked_ms) for k in logs.kills)
        if is_of_the_old_time and crashed and not is_early:
            excused.add(each)
    return excused
