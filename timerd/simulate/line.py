"""The line of `central`: the members that are due, the one that succeeded longest ago first.

Who is due for the first time since a success goes to the end, since all that were due before have succeeded before. Who
has failed goes back to where it was, which is before all that were never taken since. So the line needs no search.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from timerd.simulate.durations import Floats
from timerd.simulate.jobs import Flags, Ints

_NOBODY = np.zeros(0, np.int64)
# By the number of a look: who is due then, and was not before.
_Coming = defaultdict[int, list[Ints]]


class DueLine:
    """Members are looked for every `poll_s`; look n is at n x `poll_s`. All are due for the first time at `first_s`,
    as if they had succeeded a period before."""

    def __init__(self, first_s: Floats, cycle_s: float, poll_s: float) -> None:
        self._cycle_s, self._poll_s = cycle_s, poll_s
        self._succeeded_s = first_s - cycle_s
        # Their places in the line of all times.
        self._place = np.zeros(len(first_s), np.int64)
        self._places = 0
        self._failed, self._others = _NOBODY, _NOBODY
        self._new: _Coming = defaultdict(list)
        self._again: _Coming = defaultdict(list)
        self._come(self._new, np.arange(len(first_s)), first_s, 0)

    def take(self, look: int, count: int) -> Ints:
        """In order, and by their number where they are equal; they are under way until they have `ended`. Each look
        comes once, in order."""
        self._line_up(look)
        failed, others = self._failed[:count], self._others[: max(0, count - len(self._failed))]
        self._failed, self._others = self._failed[len(failed) :], self._others[len(others) :]
        return np.concatenate((failed, others))

    def ended(self, look: int, members: Ints, ended_s: Floats, is_done: Flags) -> None:
        """Who was taken at that look; a failure leaves its member where it was."""
        done, done_s = members[is_done], ended_s[is_done]
        self._succeeded_s[done] = done_s
        self._come(self._new, done, done_s + self._cycle_s, look + 1)
        if len(done) < len(members):
            self._come(self._again, members[~is_done], ended_s[~is_done], look + 1)

    def _line_up(self, look: int) -> None:
        if new := self._new.pop(look, []):
            members = np.concatenate(new)
            members = members[np.lexsort((members, self._succeeded_s[members]))]
            self._place[members] = np.arange(self._places, self._places + len(members))
            self._places += len(members)
            self._others = np.concatenate((self._others, members))
        if again := self._again.pop(look, []):
            failed = np.concatenate((*again, self._failed))
            self._failed = failed[np.argsort(self._place[failed], kind="stable")]

    def _come(self, coming: _Coming, members: Ints, due_s: Floats, first: int) -> None:
        """At the first look from `first` on that is not before they are due, by the same arithmetic as its instant."""
        looks = np.ceil(due_s / self._poll_s)
        looks += looks * self._poll_s < due_s
        looks -= (looks - 1) * self._poll_s >= due_s
        looks = np.maximum(looks, first).astype(np.int64)
        for look in np.unique(looks).tolist():
            coming[look].append(members[looks == look])
