"""What the callers know about each task, put together from their log: when it may fire, and whether it must.

An answer that never came leaves both possibilities open; everything that was answered binds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from timerd.demo.records import CallRecord

# Answers to a cancel that leave it open whether the task arrives: a delivery was under way (its retries are stopped),
# or the tombstone is durable and the holder did not say.
MAY_ARRIVE = frozenset({"IN_FLIGHT", "PENDING", "UNKNOWN"})
# Each task is cancelled once and its request is repeated with one request_id, so these would be untrue.
_UNTRUE = frozenset({"NOT_FOUND", "FINISHED", "ALREADY_CANCELLED", "UNSPECIFIED"})
# A move is refused where the task has fired or ended, or the store was away before anything was written; ABORTED would
# need a second mover.
_MOVE_REFUSED = frozenset({"FAILED_PRECONDITION", "UNAVAILABLE"})


@dataclass(slots=True)
class Story:
    """One task. `fire_at_ms`: the times that its callers' answers allow, the last certain one first."""

    number: int
    task_id: str = ""
    stored: bool = False
    maybe_stored: bool = False
    fire_at_ms: list[int] = field(default_factory=list)
    # When the call began that set its time.
    asked_ms: float = 0.0
    moved: bool = False
    cancelled_ms: float | None = None
    may_not_arrive: bool = False
    wrong_answers: list[str] = field(default_factory=list)

    @property
    def must_arrive(self) -> bool:
        return self.stored and self.cancelled_ms is None and not self.may_not_arrive

    @property
    def earliest_ms(self) -> int:
        return min(self.fire_at_ms, default=0)


def _schedule(story: Story, call: CallRecord) -> None:
    story.task_id = call.task_id or story.task_id
    story.fire_at_ms = [call.fire_at_ms]
    story.asked_ms = call.asked_ms
    story.stored = call.outcome == "OK"
    story.maybe_stored = call.outcome == "UNKNOWN"


def _move(story: Story, call: CallRecord) -> None:
    if call.outcome == "OK":
        story.fire_at_ms = [call.fire_at_ms]
        story.asked_ms = call.asked_ms
        story.moved = True
    elif call.outcome == "UNKNOWN":
        story.fire_at_ms.append(call.fire_at_ms)
    elif call.outcome not in _MOVE_REFUSED:
        story.wrong_answers.append(f"task {call.number}: a move was answered {call.outcome}")


def _cancel(story: Story, call: CallRecord) -> None:
    if call.outcome == "CANCELLED":
        story.cancelled_ms = call.answered_ms
    elif call.outcome in MAY_ARRIVE:
        story.may_not_arrive = True
    elif call.outcome in _UNTRUE:
        story.wrong_answers.append(f"task {call.number}: a cancel was answered {call.outcome}")


_TOLD = {"schedule": _schedule, "move": _move, "cancel": _cancel}


def stories_of(calls: Iterable[CallRecord]) -> dict[int, Story]:
    """By number. A task has one schedule and then at most one cancel or one move, in the order of their answers."""
    stories: dict[int, Story] = {}
    for call in sorted(calls, key=lambda call: (call.verb != "schedule", call.answered_ms)):
        _TOLD[call.verb](stories.setdefault(call.number, Story(call.number)), call)
    return stories
