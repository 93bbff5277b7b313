"""Histories of a cluster in which each limit key of a queue has a limit, of all instances together: so many in hand, a
share of what the queue may have in hand, a rate, so many in hand and a rate, or a rate that the queue has as well.

As `lent` and `rated`: the checker of clusters judges them, and beside it each start (G20), also around faults:
instances die, come and leave, and partitions move with what workers have. Of each key all is delivered at last.
`python -m tests.simulator.cluster.lent_keys --seeds 1000`; `--seed 7` shows one as a trace, `--variant` breaks a rule.
"""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from enum import Enum
from typing import Any
from unittest.mock import patch
from zlib import crc32

from tests.simulator.asking import new_tasks
from tests.simulator.checker import CLEAN_STOP_MS
from tests.simulator.cluster.branches import watched_cluster
from tests.simulator.cluster.forms import ClusterForm
from tests.simulator.cluster.judge import STOP_MS
from tests.simulator.cluster.lent import LentChecker, LentStory
from tests.simulator.cluster.rated import above, rate_of
from tests.simulator.cluster.ruled import Start
from tests.simulator.events import Wanted
from tests.simulator.judge import Verdict, noted, sentences, trace_of
from tests.simulator.repeats import Repeats
from tests.simulator.sizes import sizes_of
from tests.simulator.story import told
from timerd.core.cluster.lease_trust import LeaseTrust
from timerd.core.regulation import BorrowedKeys, KeyPermitKeeper, KeyTokenKeeper
from timerd.model.regulations import KeyRules, QueueLimit, Regulation
from timerd.services.engine.verbs import NewTasks
from timerd.services.regulation.key_token_issuer import KeyTokenIssuer

# Most tasks are one customer's, and some are nobody's.
OWNERS = ("", "bob", *["ann"] * 10)
CALLS_MORE = 3
# Of a queue that has a rate as well.
OWN_RATE = QueueLimit(0, 1, 1_000, 1)
# More than there are tasks.
ANY = 1 << 30


def limit_key_of(name: str) -> str:
    return OWNERS[crc32(name.encode()) % len(OWNERS)]


def most_of(seed: int) -> int:
    """Of each key in hand."""
    return ANY if form_of(seed) in (KeyForm.RATE, KeyForm.TWO_RATES) else (2, 1, 2)[seed % 3]


class KeyForm(Enum):
    """By what each key goes."""

    HANDS = "hands"
    SHARE = "share"
    RATE = "rate"
    BOTH = "both"
    # The queue has one as well.
    TWO_RATES = "two rates"

    @property
    def has_rate(self) -> bool:
        return self in (KeyForm.RATE, KeyForm.BOTH, KeyForm.TWO_RATES)


def form_of(seed: int) -> KeyForm:
    if seed % 12 in (6, 10):
        return KeyForm.TWO_RATES
    return (KeyForm.RATE, KeyForm.HANDS, KeyForm.SHARE, KeyForm.HANDS, KeyForm.RATE, KeyForm.BOTH)[seed % 6]


class LentKeysStory(LentStory):
    def limit(self) -> QueueLimit:
        form, rate = form_of(self.seed), rate_of(self.seed)
        if form.has_rate:
            return replace(rate, max_in_hand=most_of(self.seed)) if form is KeyForm.BOTH else rate
        return QueueLimit(most_of(self.seed))

    def _schedule_some(self) -> None:
        """Much of one customer is due at a time."""
        for _ in range(CALLS_MORE):
            super()._schedule_some()

    def rules(self) -> Regulation:
        if form_of(self.seed) is KeyForm.SHARE:
            return Regulation(1, limit=QueueLimit(2 * most_of(self.seed)), keys=KeyRules(share=0.5))
        own = OWN_RATE if form_of(self.seed) is KeyForm.TWO_RATES else None
        return Regulation(1, limit=own, keys=KeyRules(self.limit(), share=1))

    def tasks_of(self, request: str, names: tuple[str, ...], wanted: tuple[Wanted, ...]) -> NewTasks:
        tasks = super().tasks_of(request, names, wanted)
        return replace(tasks, rows=new_tasks(request, names, wanted, limit_key_of).rows)


class LentKeysChecker(LentChecker):
    """`most`: of each key in hand."""

    def _go_by_one(self, name: str, other: str) -> bool:
        """A task without a key is no customer's."""
        return bool(limit_key_of(name)) and limit_key_of(name) == limit_key_of(other)


def above_of_keys(seed: int, starts: Sequence[Start]) -> Iterator[str]:
    """Each key by itself, as `rated.above`."""
    for limit_key in {*OWNERS} - {""} if form_of(seed).has_rate else ():
        yield from above([each for each in starts if each.limit_key == limit_key], rate_of(seed))
    if form_of(seed) is KeyForm.TWO_RATES:
        yield from above(starts, OWN_RATE)


# -- broken rules ------------------------------------------------------------------------------------------------------


@contextmanager
def lent_to_each() -> Iterator[None]:
    """P1: what others have is not taken off."""
    with patch.object(KeyPermitKeeper, "_free", lambda _, __, limit: limit):
        yield


@contextmanager
def lends_at_once() -> Iterator[None]:
    """P2: a new keeper does not ask what others have."""
    with patch.object(KeyPermitKeeper, "unheard", lambda _: []):
        yield


@contextmanager
def dead_have_nothing() -> Iterator[None]:
    """P5: what an instance had that is gone is free at once."""

    def gone(self: Any, name: str, *_: Any) -> None:
        self._expected.pop(name, None)
        self._borrowers.pop(name, None)

    with patch.object(KeyPermitKeeper, "_gone", gone), patch.object(KeyPermitKeeper, "_take_unknown", lambda *_: None):
        yield


@contextmanager
def few_to_a_new_keeper() -> Iterator[None]:
    """L1: a new keeper hears what has changed only, and takes it for all."""

    def begin(self: Any, token: int, *, of: Any = BorrowedKeys._begin) -> None:
        was_told = self._is_told
        of(self, token)
        self._is_told = was_told

    with (
        patch.object(BorrowedKeys, "_begin", begin),
        patch.object(
            KeyPermitKeeper, "_is_taken", staticmethod(lambda known, said: known is None or said.seq > known.seq)
        ),
    ):
        yield


@contextmanager
def burst_of_each_keeper() -> Iterator[None]:
    """T3: who keeps the home next has all of each key's burst to give."""
    made = KeyTokenKeeper.__init__

    def full(self: Any, now_ms: int, *, is_first: bool) -> None:
        made(self, now_ms, is_first=True)

    with patch.object(KeyTokenKeeper, "__init__", full):
        yield


@contextmanager
def forgets_what_counts() -> Iterator[None]:
    """T5: who keeps the home forgets a key of which something was counted just now."""
    counted = KeyTokenKeeper._of

    def anew(self: Any, key: Any, now_ms: int) -> Any:
        self._keys.clear()
        return counted(self, key, now_ms)

    with patch.object(KeyTokenKeeper, "_of", anew):
        yield


@contextmanager
def unsure_keeper_goes_on() -> Iterator[None]:
    """T4: who stood still hands out tokens by what it kept."""
    drawn = KeyTokenIssuer.drawn

    async def goes_on(self: Any, home: int, *given: Any) -> Any:
        if self._keepers.books_of(home) is None:
            return await drawn(self, home, *given)
        with patch.object(LeaseTrust, "is_trusted", lambda *_: True):
            # In one step.
            return await drawn(self, home, *given)

    with patch.object(KeyTokenIssuer, "drawn", goes_on):
        yield


BROKEN: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "correct": nullcontext,
    "lent-to-each": lent_to_each,
    "lends-at-once": lends_at_once,
    "dead-have-nothing": dead_have_nothing,
    "few-to-a-new-keeper": few_to_a_new_keeper,
    "burst-of-each-keeper": burst_of_each_keeper,
    "forgets-what-counts": forgets_what_counts,
    "unsure-keeper-goes-on": unsure_keeper_goes_on,
}


# -- histories ---------------------------------------------------------------------------------------------------------


def judged_keys(seed: int, broken: str = "correct", *, traced: bool = False) -> Verdict:
    """As judge.judged."""
    with BROKEN[broken](), sizes_of(seed), watched_cluster(), noted() as errors:
        story = told(LentKeysStory(seed, repeats=Repeats(seed)))
    stop_ms = STOP_MS if story.shape is ClusterForm.OVERRUN else CLEAN_STOP_MS
    checker = LentKeysChecker(most_of(seed), story.timing.ttl_ms, story.skew_ms, story.way_ms, stop_ms)
    last = len(story.events) - 1
    rated = [(last, each) for each in above_of_keys(seed, story.starts)]
    wrong = sorted([*checker.judge(story.events), *story.broken, *rated])
    of_rate = len(story.starts) if form_of(seed).has_rate else 0
    hits = Counter(starts=len(story.starts), judged=checker.judged, rated=of_rate)
    trace = tuple(trace_of(story, wrong)) if traced else ()
    found = tuple(sentences(story, wrong, errors))
    return Verdict(seed, broken, found, len(story.events), hits, trace, ".cluster.lent_keys", once=False)


def main() -> int:
    """Judges histories, or shows one of them as a trace."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.cluster.lent_keys", description=__doc__)
    parser.add_argument("--seed", type=int, help="this one, as a trace")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--variant", default="correct", choices=BROKEN, help="the rule that is broken")
    given = parser.parse_args()
    if given.seed is not None:
        verdict = judged_keys(given.seed, given.variant, traced=True)
        print("\n".join([*verdict.trace, *verdict.wrong]))
        return len(verdict.wrong)
    hits, wrong = Counter[str](), 0
    for seed in range(given.first, given.first + given.seeds):
        verdict = judged_keys(seed, given.variant)
        hits, wrong = hits + verdict.hits, wrong + bool(verdict.wrong)
        for sentence in verdict.wrong:
            print(f"{verdict.replay}: {sentence}", flush=True)
    counted = f"{hits['judged']} starts that took the last permit of a key, {hits['rated']} by a rate"
    print(f"{given.seeds} histories, {wrong} of them wrong; {counted}")
    return wrong


if __name__ == "__main__":
    sys.exit(main() > 0)
