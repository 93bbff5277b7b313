"""The verdict: what the callers were told against what the worker received. Pure, and blind to the server.

It may be wrong about nothing that a user would notice: a task early, lost, fired twice, delivered after CANCELLED,
delivered again after its ack was confirmed, or delivered with a time or an id that nobody was told.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from timerd.demo.records import DeliveryRecord, Kill, Logs
from timerd.demo.story import MAY_ARRIVE, Story, stories_of

ByNumber = Mapping[int, Sequence[DeliveryRecord]]


@dataclass(frozen=True, slots=True)
class Lateness:
    """Of the first delivery of each task, in milliseconds."""

    count: int
    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(frozen=True, slots=True)
class Verdict:
    scheduled: int
    unanswered: int
    cancelled: int
    moved: int
    # Without an answer that says what became of them.
    cancels_unknown: int
    moves_unknown: int
    # Stored or moved when their time was already past: such a row may have been written twice, in two places.
    too_late: int
    # Delivered, and CANCELLED was answered too.
    delivered_then_cancelled: int
    # Delivered, and a crash came between a cancel and its answer: the ledger may call them acked or cancelled.
    acked_or_cancelled: int
    fired: int
    acked: int
    duplicates: int
    duplicates_explained: int
    # Kind of violation -> sentences, one per case; a kind that did not occur has an empty tuple.
    violations: Mapping[str, tuple[str, ...]]
    lateness: Mapping[str, Lateness] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        return not any(self.violations.values())


def judge(logs: Logs) -> Verdict:
    stories = stories_of(logs.calls)
    arrived = by_number(logs.deliveries)
    acked_ms = first_confirmed_ms(logs)
    repeats = [again for run in by_delivery_id(logs.deliveries).values() for again in run[1:]]
    after_ms = ((again, sent_ms(again) - acked_ms.get(again.delivery_id, math.inf)) for again in repeats)
    unexplained = [(again, late_ms) for again, late_ms in after_ms if late_ms > 0]
    acked = {each.number for each in logs.deliveries if each.delivery_id in acked_ms}
    return Verdict(
        scheduled=sum(story.stored for story in stories.values()),
        unanswered=sum(story.maybe_stored for story in stories.values()),
        cancelled=sum(story.cancelled_ms is not None for story in stories.values()),
        moved=sum(story.moved for story in stories.values()),
        cancels_unknown=sum(call.verb == "cancel" and call.outcome in MAY_ARRIVE for call in logs.calls),
        moves_unknown=sum(call.verb == "move" and call.outcome == "UNKNOWN" for call in logs.calls),
        too_late=sum(call.verb != "cancel" and call.answered_ms > call.fire_at_ms for call in logs.calls),
        delivered_then_cancelled=sum(stories[each].cancelled_ms is not None for each in arrived if each in stories),
        acked_or_cancelled=len(interrupted_cancels(logs) & arrived.keys()),
        fired=len(arrived),
        acked=len(acked),
        duplicates=len(repeats),
        duplicates_explained=len(repeats) - len(unexplained),
        violations=violations_of(stories, arrived, unexplained, logs.kills, acked),
        lateness=lateness_of(stories, arrived, logs.kills),
    )


def interrupted_cancels(logs: Logs) -> set[int]:
    return {
        call.number
        for call in logs.calls
        for kill in logs.kills
        if call.verb == "cancel" and call.asked_ms <= kill.ready_ms and kill.killed_ms <= call.answered_ms
    }


def by_number(deliveries: Iterable[DeliveryRecord]) -> dict[int, list[DeliveryRecord]]:
    groups: dict[int, list[DeliveryRecord]] = defaultdict(list)
    for each in sorted(deliveries, key=lambda each: each.received_ms):
        groups[each.number].append(each)
    return dict(groups)


def by_delivery_id(deliveries: Iterable[DeliveryRecord]) -> dict[str, list[DeliveryRecord]]:
    groups: dict[str, list[DeliveryRecord]] = defaultdict(list)
    for each in sorted(deliveries, key=lambda each: each.received_ms):
        groups[each.delivery_id].append(each)
    return dict(groups)


def sent_ms(delivery: DeliveryRecord) -> float:
    """Two workers read from two streams, which nothing orders: what one was sent before the other's ack was confirmed
    it may read after that. Where a worker cannot tell, what it reads counts as sent in that instant."""
    return delivery.sent_after_ms or delivery.received_ms


def first_confirmed_ms(logs: Logs) -> dict[str, float]:
    first: dict[str, float] = {}
    for each in logs.confirmed:
        first[each.delivery_id] = min(each.confirmed_ms, first.get(each.delivery_id, each.confirmed_ms))
    return first


def violations_of(
    stories: Mapping[int, Story],
    arrived: ByNumber,
    unexplained: Sequence[tuple[DeliveryRecord, float]],
    kills: Sequence[Kill],
    acked: Set[int] = frozenset(),
) -> dict[str, tuple[str, ...]]:
    known = {number: run for number, run in arrived.items() if number in stories}
    pairs = [(stories[number], each) for number, run in known.items() for each in run]
    return {
        "early": tuple(early(story, each) for story, each in pairs if is_early(story, each)),
        "lost": tuple(
            f"task {story.number} was stored for {story.fire_at_ms[0]} and never arrived"
            for story in stories.values()
            if story.must_arrive and story.number not in arrived
        ),
        "delivered after CANCELLED": tuple(
            f"task {story.number} arrived at {each.received_ms:.3f}, CANCELLED was answered at {story.cancelled_ms:.3f}"
            for story, each in pairs
            if story.cancelled_ms is not None and breaks_cancel(story.cancelled_ms, each, kills)
        ),
        "acked and CANCELLED": tuple(
            f"task {story.number} was acknowledged, and CANCELLED was answered at {story.cancelled_ms:.3f}"
            for story in stories.values()
            if story.cancelled_ms is not None and story.number in acked
        ),
        "unexplained duplicates": tuple(
            f"task {each.number} arrived again at {each.received_ms:.3f}, sent {late_ms:.3f} ms after its ack was "
            "confirmed, or later"
            for each, late_ms in unexplained
        ),
        "fired twice": tuple(
            f"task {number} arrived with more than one delivery_id"
            for number, run in known.items()
            if len({each.delivery_id for each in run}) > 1
        ),
        "wrong facts": (*wrong_facts(pairs), *strangers(stories, arrived)),
        "wrong answers": tuple(sentence for story in stories.values() for sentence in story.wrong_answers),
    }


def is_early(story: Story, each: DeliveryRecord) -> bool:
    """Zero tolerance, against what the callers were told and against what the delivery itself says."""
    return each.received_ms < max(story.earliest_ms, each.fire_at_ms)


def early(story: Story, each: DeliveryRecord) -> str:
    ahead_ms = max(story.earliest_ms, each.fire_at_ms) - each.received_ms
    return f"task {each.number} arrived {ahead_ms:.3f} ms before its time"


def breaks_cancel(cancelled_ms: float, each: DeliveryRecord, kills: Sequence[Kill]) -> bool:
    """A delivery from before the reply is allowed only where a crash lies between the two."""
    if each.received_ms > cancelled_ms:
        return True
    return not any(each.received_ms <= kill.ready_ms and kill.killed_ms <= cancelled_ms for kill in kills)


def wrong_facts(pairs: Iterable[tuple[Story, DeliveryRecord]]) -> Iterable[str]:
    for story, each in pairs:
        if each.fire_at_ms not in story.fire_at_ms:
            yield f"task {each.number} arrived with fire_at_ms {each.fire_at_ms}, answered was {story.fire_at_ms}"
        if story.task_id and each.task_id != story.task_id:
            yield f"task {each.number} arrived with another task_id than was answered"
        if not (story.stored or story.maybe_stored):
            yield f"task {each.number} arrived though it was answered that it is not stored"


def strangers(stories: Mapping[int, Story], arrived: ByNumber) -> Iterable[str]:
    return (f"task {number} arrived and nobody scheduled it" for number in arrived if number not in stories)


def lateness_of(stories: Mapping[int, Story], arrived: ByNumber, kills: Sequence[Kill]) -> dict[str, Lateness]:
    groups: dict[str, list[float]] = {"before the kill": [], "due while it was down": [], "after the restart": []}
    for number, run in arrived.items():
        # What was asked for after its time cannot have arrived before it was asked for.
        due_ms = max(run[0].fire_at_ms, stories[number].asked_ms if number in stories else 0)
        groups[phase(due_ms, run[0].received_ms, kills)].append(run[0].received_ms - due_ms)
    return {name: summary(sorted(values)) for name, values in groups.items() if values}


def phase(due_ms: float, received_ms: float, kills: Sequence[Kill]) -> str:
    """What was due before the kill and arrived after it waited for the restart too."""
    if not kills or received_ms < kills[0].killed_ms:
        return "before the kill"
    return "after the restart" if due_ms >= kills[-1].ready_ms else "due while it was down"


def summary(ascending: Sequence[float]) -> Lateness:
    count = len(ascending)
    return Lateness(count, ascending[count // 2], ascending[min(count - 1, count * 99 // 100)], ascending[-1])
