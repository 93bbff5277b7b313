"""Histories of a cluster in which a queue has a rate, which holds for all instances together.

The checker of clusters judges them, and the log of all starts besides (G20): in any w seconds there are no more than
rate x (w + 1 s) + burst, whoever has kept the limit, was killed, stood still or was cut off. All is delivered at last.
`python -m tests.simulator.cluster.rated --seeds 1000`; `--seed 7` shows one as a trace, `--variant` breaks a rule.
"""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import argparse
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import timerd.core.regulation.tokens as tokens_module
from tests.simulator.checker import CLEAN_STOP_MS
from tests.simulator.cluster.branches import watched_cluster
from tests.simulator.cluster.checker import ClusterChecker
from tests.simulator.cluster.forms import ClusterForm
from tests.simulator.cluster.judge import STOP_MS
from tests.simulator.cluster.ruled import QUEUE, RuledStory, Start
from tests.simulator.judge import Verdict, noted, sentences, trace_of
from tests.simulator.repeats import Repeats
from tests.simulator.sizes import sizes_of
from tests.simulator.story import told
from timerd.core.cluster.lease_trust import LeaseTrust
from timerd.core.regulation import LentRates, TokenKeeper
from timerd.core.regulation.rate import RateLimit
from timerd.model.regulations import QueueLimit
from timerd.services.regulation.token_issuer import TokenIssuer

RATES = (QueueLimit(0, 1, 1_000, 1), QueueLimit(0, 2, 1_000, 4), QueueLimit(0, 2, 5_000, 1), QueueLimit(0, 1, 3_000, 3))
SECOND_MS = 1_000


def rate_of(seed: int) -> QueueLimit:
    return RATES[seed // 2 % len(RATES)]


class RatedStory(RuledStory):
    def limit(self) -> QueueLimit:
        return rate_of(self.seed)


# -- the judge ---------------------------------------------------------------------------------------------------------


def above(starts: Sequence[Start], limit: QueueLimit) -> Iterator[str]:
    """As one bucket that leaks: what has started is never more than it had room for. It leaks `rate` in each period,
    and has room for the burst and what the rate gives in a second, since tokens live for so long."""
    room = limit.burst * limit.period_ms + limit.rate * SECOND_MS
    level = last_ms = 0.0
    for start in starts:
        level = max(0.0, level - (start.at_ms - last_ms) * limit.rate)
        level, last_ms = level + start.tasks * limit.period_ms, start.at_ms
        if level > room:
            more = (level - room) / limit.period_ms
            yield f"G20: {start.instance} starts {more:.3f} tasks above the rate at {start.at_ms:.0f}"


def contested(starts: Sequence[Start], limit: QueueLimit) -> int:
    """How often a start of one instance came within two seconds of another one's: they shared what there was."""
    recent, found = deque[Start](maxlen=limit.burst + 1), 0
    for start in starts:
        near = {each.instance for each in recent if start.at_ms - each.at_ms < 2 * limit.period_ms / limit.rate}
        found += bool(near - {start.instance})
        recent.append(start)
    return found


# -- broken rules ------------------------------------------------------------------------------------------------------


@contextmanager
def each_for_itself() -> Iterator[None]:
    """Each instance counts by a rate of its own."""

    def rate(self: Any, labels: Any) -> Any:
        return RateLimit(self._known.of(QUEUE).limit, int(self.boot_ms()), is_full=True)

    with patch.object(LentRates, "rate", rate):
        yield


@contextmanager
def burst_of_each_keeper() -> Iterator[None]:
    """T3: who keeps the limit next has all of the burst to give."""
    made = TokenKeeper.__init__

    def full(self: Any, now_ms: int, *, is_first: bool) -> None:
        made(self, now_ms, is_first=True)

    with patch.object(TokenKeeper, "__init__", full):
        yield


@contextmanager
def tokens_never_lapse() -> Iterator[None]:
    """T2: what was drawn and not used may be used whenever."""
    with patch.object(tokens_module, "TOKEN_MS", 10_000_000):
        yield


@contextmanager
def unsure_keeper_goes_on() -> Iterator[None]:
    """T4: who stood still hands out tokens by what it kept."""
    drawn = TokenIssuer.drawn

    async def goes_on(self: Any, labels: Any, name: str, want: int, held_for_ms: int) -> Any:
        if self._keepers.books_of(labels) is None:
            return await drawn(self, labels, name, want, held_for_ms)
        with patch.object(LeaseTrust, "is_trusted", lambda *_: True):
            # In one step.
            return await drawn(self, labels, name, want, held_for_ms)

    with patch.object(TokenIssuer, "drawn", goes_on):
        yield


BROKEN: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "correct": nullcontext,
    "each-for-itself": each_for_itself,
    "burst-of-each-keeper": burst_of_each_keeper,
    "tokens-never-lapse": tokens_never_lapse,
    "unsure-keeper-goes-on": unsure_keeper_goes_on,
}


# -- histories ---------------------------------------------------------------------------------------------------------


def judged_rated(seed: int, broken: str = "correct", *, traced: bool = False) -> Verdict:
    """As judge.judged."""
    with BROKEN[broken](), sizes_of(seed), watched_cluster(), noted() as errors:
        story = told(RatedStory(seed, repeats=Repeats(seed)))
    stop_ms = STOP_MS if story.shape is ClusterForm.OVERRUN else CLEAN_STOP_MS
    checker = ClusterChecker(story.timing.ttl_ms, story.skew_ms, story.way_ms, stop_ms)
    limit, last = rate_of(seed), len(story.events) - 1
    wrong = sorted(
        [*checker.judge(story.events), *story.broken, *((last, each) for each in above(story.starts, limit))]
    )
    hits = Counter(starts=len(story.starts), contested=contested(story.starts, limit))
    trace = tuple(trace_of(story, wrong)) if traced else ()
    found = tuple(sentences(story, wrong, errors))
    return Verdict(seed, broken, found, len(story.events), hits, trace, ".cluster.rated", once=False)


def main() -> int:
    """Judges histories, or shows one of them as a trace."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.cluster.rated", description=__doc__)
    parser.add_argument("--seed", type=int, help="this one, as a trace")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--variant", default="correct", choices=BROKEN, help="the rule that is broken")
    given = parser.parse_args()
    if given.seed is not None:
        verdict = judged_rated(given.seed, given.variant, traced=True)
        print("\n".join([*verdict.trace, *verdict.wrong]))
        return len(verdict.wrong)
    hits, wrong = Counter[str](), 0
    for seed in range(given.first, given.first + given.seeds):
        verdict = judged_rated(seed, given.variant)
        hits, wrong = hits + verdict.hits, wrong + bool(verdict.wrong)
        for sentence in verdict.wrong:
            print(f"{verdict.replay}: {sentence}", flush=True)
    shared = f"{hits['starts']} slices started, {hits['contested']} of them near one of another instance"
    print(f"{given.seeds} histories, {wrong} of them wrong; {shared}")
    return wrong


if __name__ == "__main__":
    sys.exit(main() > 0)
