"""What a schedule knows of its occurrences where they must not run beside each other (tests/models/overlap.pml)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from timerd.model.codec import check_understood, field_names, split_known, with_kept
from timerd.model.identity import MAC_BYTES, TaskId
from timerd.model.settle import Outcome

# Outcomes that are kept.
MOST_LAST = 10
# Triggers whose repeats are answered: more than calls whose hashes are kept.
MOST_TRIGGERED = 10


class Overlap(StrEnum):
    """What becomes of an instant whose time has come while the occurrence before is open."""

    ALLOW = "allow"
    # It gets no task.
    SKIP = "skip"
    # It waits for the end of that one, and no other one beside it.
    BUFFER_ONE = "buffer_one"
    BUFFER_ALL = "buffer_all"
    # That one is cancelled, and it waits for its end.
    CANCEL_OTHER = "cancel_other"
    # That one is cancelled, and it does not wait.
    REPLACE = "replace"


class OpenedOccurrence(NamedTuple):
    """The occurrence that was created last: all that its task is found by. `prefix`: hexadecimal digits."""

    prefix: str
    place_ms: int
    shard: int
    scope: int
    priority: int
    instant_ms: int
    revision: int
    is_trigger: bool = False

    @property
    def task(self) -> TaskId:
        """Without its MAC, which is for callers."""
        prefix = bytes.fromhex(self.prefix)
        return TaskId(self.place_ms, self.shard, self.scope, self.priority, prefix, 0, bytes(MAC_BYTES))


class WaitingInstant(NamedTuple):
    """An instant whose time has come. `missed`: instants between it and the task before that get none."""

    instant_ms: int
    missed: int = 0


class EndedOccurrence(NamedTuple):
    """How an occurrence has ended; 0: longer ago than outcomes are kept."""

    instant_ms: int
    outcome: int
    is_trigger: bool = False


@dataclass(frozen=True, slots=True)
class OverlapState:
    """`ousted`: what the one that is open was put in the place of, until its cancel is through. `passed`: instants
    without a task since the last one that was created or waits. `halted_ms`: the instant whose dead letter has paused
    the schedule. `ended_ms`: from when on a fixed delay counts: the end of the last one, or its creation; 0: that
    of the revision. `triggered`: those of the last triggers, by which a repeat of such a call is answered."""

    open: OpenedOccurrence | None = None
    ousted: OpenedOccurrence | None = None
    waiting: tuple[WaitingInstant, ...] = ()
    passed: int = 0
    skipped: int = 0
    last: tuple[EndedOccurrence, ...] = ()
    halted_ms: int = 0
    ended_ms: int = 0
    triggered: tuple[OpenedOccurrence, ...] = ()
    kept: str = ""

    def to_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in _STATE}
        return with_kept({name: value for name, value in values.items() if value}, self.kept)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> OverlapState:
        """Raises NotUnderstood. What a later release has appended to an occurrence is left out."""
        values, kept = split_known(stored, _STATE)
        check_understood("The occurrences of a schedule", kept)
        for name in ("open", "ousted"):
            if name in values:
                values[name] = _opened(values[name])
        values["triggered"] = tuple(map(_opened, values.get("triggered", ())))
        values["waiting"] = tuple(WaitingInstant(*each[:2]) for each in values.get("waiting", ()))
        values["last"] = tuple(EndedOccurrence(*each[:3]) for each in values.get("last", ()))
        return cls(**values, kept=kept)

    def triggered_as(self, prefix: str) -> OpenedOccurrence | None:
        """What an earlier try of a call has created, whatever has become of it; None: that is not kept. A release
        before keeps what is open alone."""
        known = self.triggered if self.open is None else (*self.triggered, self.open)
        return next((each for each in known if each.prefix == prefix), None)

    def ended_with(self, outcome: Outcome | None) -> tuple[EndedOccurrence, ...]:
        """The last ones, when the one that is open has ended."""
        assert self.open is not None
        ended = EndedOccurrence(self.open.instant_ms, int(outcome or 0), self.open.is_trigger)
        return (*self.last, ended)[-MOST_LAST:]


def _opened(stored: Sequence[Any]) -> OpenedOccurrence:
    return OpenedOccurrence(*stored[: len(OpenedOccurrence._fields)])


_STATE = field_names(OverlapState)
NOTHING_OPEN = OverlapState()
