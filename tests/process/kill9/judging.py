"""The verdict of the demo, and what a fault explains beyond it.

What was delivered before the end of a fault, without a confirmed ack, may be delivered again (G5), and cancelled or
moved between its attempts. Where a worker or the server stood still, a worker may read only then what had been sent to
it before the cancel was answered: its lease had ended, nobody had the task any more as far as the server knew, and
CANCELLED says that no other delivery starts. Nothing explains an early or a lost task, or one that was sent after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from timerd.demo.excuse import forgotten_by_a_crash
from timerd.demo.records import DeliveryRecord, Kill, Logs
from timerd.demo.story import stories_of
from timerd.demo.verdict import Verdict, judge


@dataclass(frozen=True, slots=True)
class Judgement:
    verdict: Verdict
    # Delivered, then the fault, then moved; see timerd/demo/excuse.py.
    then_moved: int
    # Sent before CANCELLED was answered, read after it by a worker that had stood still.
    read_late: int


def read_late(logs: Logs, stops: Sequence[Kill]) -> set[DeliveryRecord]:
    """A worker says when it has read all that was sent to it until the stop ended: until then it may be behind."""
    stories = stories_of(logs.calls)
    late = set()
    for each in logs.deliveries:
        story = stories.get(each.number)
        if story is None or story.cancelled_ms is None or each.sent_after_ms > story.cancelled_ms:
            continue
        behind = any(s.killed_ms <= story.cancelled_ms <= each.received_ms <= s.ready_ms for s in stops)
        if behind and each.received_ms >= each.fire_at_ms:
            late.add(each)
    return late


def judged(logs: Logs, faults: Iterable[Kill], stops: Sequence[Kill]) -> Judgement:
    """`faults`: those that explain something; `stops`: those of them in which a reader may have stood still."""
    logs = replace(logs, kills=tuple(faults))
    moved, late = forgotten_by_a_crash(logs), read_late(logs, stops)
    kept = tuple(each for each in logs.deliveries if each not in moved and each not in late)
    return Judgement(judge(replace(logs, deliveries=kept)), len(moved), len(late))
