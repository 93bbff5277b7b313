"""The attempts of a run, from the beginning of a handler to its end, and what a fault explains of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from tests.chaos.regulated.plan import LEASE_MS
from tests.chaos.regulated.records import DONE, LOST, Begun, Logs, Window

_OPEN = "open"


@dataclass(frozen=True, slots=True)
class Attempt:
    """`how` it ended, as `Ended` says; or it was killed with its worker, or is still open."""

    begun: Begun
    end_ms: float
    how: str

    @property
    def at_ms(self) -> float:
        return self.begun.at_ms

    @property
    def number(self) -> int:
        return self.begun.number

    @property
    def is_done(self) -> bool:
        return self.how == DONE

    @property
    def given_up_ms(self) -> float:
        """From then on nobody counts it, though its handler goes on: no lease ends sooner after it was sent."""
        return min(self.end_ms, self.at_ms + LEASE_MS) if self.how == LOST else self.end_ms

    @property
    def is_overdue(self) -> bool:
        """Whether its lease was over before it reached its worker: its fence says when it was started."""
        return bool(self.begun.fence) and self.at_ms - self.begun.fence[0] >= LEASE_MS

    def __str__(self) -> str:
        what = f"attempt {self.begun.attempt} of {self.number} in {self.begun.worker}"
        return f"{what} ({self.at_ms:.0f} to {self.end_ms:.0f}, {self.how})"


def attempts_of(logs: Logs) -> list[Attempt]:
    """By their beginning."""
    ended = {(each.worker, each.serial): each for each in logs.ended}
    gone = {each.worker: each.at_ms for each in logs.gone}
    found = []
    for each in sorted(logs.begun, key=lambda each: each.at_ms):
        end = ended.get((each.worker, each.serial))
        if end is not None:
            found.append(Attempt(each, end.at_ms, end.how))
        else:
            found.append(Attempt(each, gone.get(each.worker, inf), "killed" if each.worker in gone else _OPEN))
    return found


def grouped(attempts: Iterable[Attempt], by: Callable[[Attempt], str]) -> dict[str, list[Attempt]]:
    """Without those that are in no group."""
    groups: defaultdict[str, list[Attempt]] = defaultdict(list)
    for each in attempts:
        if name := by(each):
            groups[name].append(each)
    return dict(groups)


def is_within(at_ms: float, windows: Sequence[Window]) -> bool:
    return any(window.begun_ms <= at_ms <= window.over_ms for window in windows)


def without_stale(attempts: Sequence[Attempt], windows: Sequence[Window]) -> list[Attempt]:
    """Of one key, without those that a receiver can refuse, for another start of the key with a larger fence was before
    it: sent by who stood still or was cut off, or on its way for longer than its lease."""
    stops = [window for window in windows if window.stops]
    kept, highest = [], tuple[int, ...]()
    for each in attempts:
        is_excused = each.is_overdue or is_within(each.at_ms, stops)
        if not (each.begun.fence < highest and is_excused):
            kept.append(each)
        highest = max(highest, each.begun.fence)
    return kept
