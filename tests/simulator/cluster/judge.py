"""Tells the history of a cluster by seed and judges it."""

from __future__ import annotations

from collections import Counter

from tests.simulator.branches import answered, watched
from tests.simulator.checker import CLEAN_STOP_MS
from tests.simulator.cluster.branches import befell, watched_cluster
from tests.simulator.cluster.checker import ClusterChecker
from tests.simulator.cluster.forms import ClusterForm
from tests.simulator.cluster.story import ClusterStory
from tests.simulator.cluster.variants import VARIANTS
from tests.simulator.judge import Verdict, noted, sentences, trace_of
from tests.simulator.repeats import Repeats
from tests.simulator.sizes import sizes_of
from tests.simulator.story import told

# A stop in which all is slow and nothing away is one in good order, if it takes no longer.
STOP_MS = 45_000


def judged(seed: int, variant: str = "correct", *, traced: bool = False, once: bool = False) -> Verdict:
    with VARIANTS[variant](), sizes_of(seed), watched() as hits, watched_cluster(), noted() as errors:
        story = told(ClusterStory(seed, repeats=None if once else Repeats(seed)))
        answered(story.events)
        befell(story.events)
        counted: Counter[str] = hits + story.weather.hits + story.net.hits
    is_overrun = story.shape is ClusterForm.OVERRUN
    stop_ms = STOP_MS if is_overrun else CLEAN_STOP_MS
    checker = ClusterChecker(story.timing.ttl_ms, story.skew_ms, story.way_ms, stop_ms)
    broken = sorted(checker.judge(story.events) + story.broken)
    counted["delivery by a stale token"] += checker.stale
    trace = tuple(trace_of(story, broken)) if traced else ()
    wrong = tuple(sentences(story, broken, errors))
    return Verdict(seed, variant, wrong, len(story.events), counted, trace, " --cluster", once)
