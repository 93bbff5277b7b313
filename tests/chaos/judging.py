"""The verdict of the demo on a cluster, and what several instances explain beyond it.

- A *stale* delivery carries a lower fencing token than one that came before it from the same partition: it was on its
  way when its holder stood still or was cut off. A receiver can refuse it (G6); it counts against G5's thousand.
- A later attempt may *cross* the late ack of an earlier one: its holder sent it before it heard of the ack, and the
  confirmation overtook it, for the two reach the worker over different instances. Of one server they come in order.
- What a worker has of a partition that is *given away* goes on with it. But what a cancel met in its hand is recorded
  as cancelled: its ack is refused, and a repeat of the cancel says CANCELLED.
- A row that came too late for where it was to be written is *written again* further on, under another task_id, where
  the holder did not answer, or the call was repeated: it may arrive more than once with one delivery_id (G2).

A task that was delivered, then moved over a fault, fires at its new time, whatever becomes of the first delivery: that
it does not is a loss, and nothing explains it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tests.process.kill9.judging import judged as judged_alone
from timerd.demo.records import Away, CallRecord, Confirmed, DeliveryRecord, Kill, Logs
from timerd.demo.story import stories_of
from timerd.demo.verdict import Verdict, by_number

MOST_STALE = 1_000
# From one instance to the worker of another, while a fault and what follows from it keep all of them busy.
CROSSING_MS = 2_000
# Within so long after it was said, a hand-over is in the records.
RECORDED_MS = 500
# `resume_grace`, as it is by default.
GRACE_MS = 1_000


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A partition went to another instance, in peace. `scope`: as its deliveries name it."""

    scope: str
    at_ms: float


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: Verdict
    stale: tuple[DeliveryRecord, ...]
    written_again: int
    crossed: int
    then_moved: int
    read_late: int
    # Answered CANCELLED after their worker's stream was broken for longer than the grace.
    given_up: int = 0
    # Answered CANCELLED after their partition was given away with them in hand.
    given_away: int = 0


def stale_of(deliveries: Iterable[DeliveryRecord], faults: Sequence[Kill]) -> set[DeliveryRecord]:
    """Only of what a fault explains; each must have come before in its own right, or it stays what it is."""
    highest: dict[str, int] = defaultdict(int)
    found = set()
    for each in sorted(deliveries, key=lambda each: each.received_ms):
        if not each.fencing_scope:
            continue
        is_lower = each.fencing_token < highest[each.fencing_scope]
        if is_lower and any(fault.killed_ms <= each.received_ms <= fault.ready_ms for fault in faults):
            found.add(each)
        highest[each.fencing_scope] = max(highest[each.fencing_scope], each.fencing_token)
    return found


def without_stale(logs: Logs, stale: set[DeliveryRecord]) -> Logs:
    """The only delivery of a task counts, whoever made it, and the only one by an id of which the ack was confirmed: a
    move gives another id."""
    arrived, confirmed = by_number(logs.deliveries), {each.delivery_id for each in logs.confirmed}
    in_force = {each.delivery_id for each in logs.deliveries if each not in stale}
    counts = confirmed - in_force
    again = {
        each
        for each in stale
        if each.delivery_id not in counts and any(other not in stale for other in arrived[each.number])
    }
    return replace(logs, deliveries=tuple(each for each in logs.deliveries if each not in again))


def without_written_again(logs: Logs) -> tuple[Logs, int]:
    """Of each delivery_id of a task that came too late the first one, as if it had the id that was answered."""
    stories = stories_of(logs.calls)
    too_late = {call.number for call in logs.calls if call.verb != "cancel" and call.answered_ms > call.fire_at_ms}
    rows: dict[str, set[str]] = defaultdict(set)
    for each in logs.deliveries:
        # Also the row that was answered and did not arrive itself.
        rows[each.delivery_id] |= {each.task_id, stories[each.number].task_id} if each.number in too_late else set()
    kept, seen = [], set[str]()
    for each in sorted(logs.deliveries, key=lambda each: each.received_ms):
        # Whose ack was confirmed cannot be told apart where there are several rows.
        is_again = each.delivery_id in seen and len(rows[each.delivery_id]) > 1
        seen.add(each.delivery_id)
        if each.number not in too_late:
            kept.append(each)
        elif not is_again:
            kept.append(replace(each, task_id=stories[each.number].task_id or each.task_id))
    return replace(logs, deliveries=tuple(kept)), len(logs.deliveries) - len(kept)


def with_crossed(logs: Logs, faults: Sequence[Kill]) -> tuple[Logs, int]:
    """Each such delivery counts as sent when the ack of the earlier attempt was confirmed."""
    confirmed: dict[str, Confirmed] = {}
    for said in sorted(logs.confirmed, key=lambda said: said.confirmed_ms):
        confirmed.setdefault(said.delivery_id, said)
    kept, crossed = [], 0
    for each in logs.deliveries:
        first = confirmed.get(each.delivery_id)
        if first is not None and has_crossed(each, first, faults):
            kept.append(replace(each, sent_after_ms=first.confirmed_ms))
            crossed += 1
        else:
            kept.append(each)
    return replace(logs, deliveries=tuple(kept)), crossed


def has_crossed(again: DeliveryRecord, first: Confirmed, faults: Sequence[Kill]) -> bool:
    behind_ms = (again.sent_after_ms or again.received_ms) - first.confirmed_ms
    is_excused = any(fault.killed_ms <= first.confirmed_ms <= fault.ready_ms for fault in faults)
    return again.attempt > first.attempt and 0 < behind_ms <= CROSSING_MS and is_excused


def without_given_up(logs: Logs) -> tuple[Logs, int]:
    """A stream that is broken for longer than the grace has no deliveries any more, as far as the server knows: they
    wait for their next attempt, so that a cancel says CANCELLED of them, and the late ack is refused. Such a cancel
    counts as IN_FLIGHT. Not where a delivery came after it."""
    arrived, counted = by_number(logs.deliveries), 0
    calls = []
    for call in logs.calls:
        came_ms = [each.received_ms for each in arrived.get(call.number, ())]
        is_given_up = call.verb == "cancel" and call.outcome == "CANCELLED" and was_given_up(came_ms, call, logs.away)
        calls.append(replace(call, outcome="IN_FLIGHT") if is_given_up else call)
        counted += is_given_up
    return replace(logs, calls=tuple(calls)), counted


def was_given_up(came_ms: Sequence[float], cancel: CallRecord, away: Iterable[Away]) -> bool:
    """Whether each delivery came before the cancel was answered, and one was in hand over a break that the server gave
    up."""
    if not came_ms or max(came_ms) > cancel.answered_ms:
        return False
    return any(
        each.opened_ms - each.heard_ms >= GRACE_MS
        and min(came_ms) <= each.opened_ms
        and each.heard_ms + GRACE_MS <= cancel.answered_ms
        for each in away
    )


def without_given_away(logs: Logs, handed_over: Sequence[HandedOver]) -> tuple[Logs, int]:
    """Such a cancel counts as IN_FLIGHT. Not where a delivery came after it, nor where an ack was confirmed."""
    arrived, acked = by_number(logs.deliveries), {each.delivery_id for each in logs.confirmed}
    calls, counted = [], 0
    for call in logs.calls:
        came = arrived.get(call.number, ())
        is_cancelled = call.verb == "cancel" and call.outcome == "CANCELLED" and bool(came)
        is_given_away = is_cancelled and not any(each.delivery_id in acked for each in came)
        is_given_away = is_given_away and all(was_handed_over(each, call, handed_over) for each in came)
        calls.append(replace(call, outcome="IN_FLIGHT") if is_given_away else call)
        counted += is_given_away
    return replace(logs, calls=tuple(calls)), counted


def was_handed_over(each: DeliveryRecord, cancel: CallRecord, handed_over: Iterable[HandedOver]) -> bool:
    """Where a worker does not say whose its delivery was, any hand-over counts."""
    return any(
        other.scope == (each.fencing_scope or other.scope)
        and each.received_ms <= other.at_ms <= cancel.answered_ms + RECORDED_MS
        for other in handed_over
    )


def judged(
    logs: Logs, faults: Sequence[Kill], stops: Sequence[Kill], handed_over: Sequence[HandedOver] = ()
) -> Judgement:
    logs, given_up = without_given_up(logs)
    logs, given_away = without_given_away(logs, handed_over)
    stale = stale_of(logs.deliveries, stops)
    logs, written_again = without_written_again(without_stale(replace(logs, kills=tuple(faults)), stale))
    logs, crossed = with_crossed(logs, faults)
    alone = judged_alone(logs, faults, stops)
    explained = alone.then_moved, alone.read_late, given_up, given_away
    return Judgement(alone.verdict, tuple(stale), written_again, crossed, *explained)
