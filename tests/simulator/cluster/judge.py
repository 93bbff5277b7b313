"""Tells the history of a cluster by seed and judges it."""

from __future__ import annotations

from collections import Counter

from tests.simulator.branches import answered, watched
from tests.simulator.cluster.branches import befell, watched_cluster
from tests.simulator.cluster.checker import ClusterChecker
from tests.simulator.cluster.story import ClusterStory
from tests.simulator.cluster.variants import VARIANTS
from tests.simulator.judge import Verdict, sentences, trace_of
from tests.simulator.sizes import sizes_of
from tests.simulator.story import told


def judged(seed: int, variant: str = "correct", *, traced: bool = False) -> Verdict:
    with VARIANTS[variant](), sizes_of(seed), watched() as hits, watched_cluster():
        story = told(ClusterStory(seed))
        answered(story.events)
        befell(story.events)
        counted: Counter[str] = hits + story.weather.hits + story.net.hits
    checker = ClusterChecker(ttl_ms=story.timing.ttl_ms, skew_ms=story.skew_ms)
    broken = sorted(checker.judge(story.events) + story.broken)
    counted["delivery by a stale token"] += checker.stale
    counted["written twice, and sent after its end"] += checker.repeated
    trace = tuple(trace_of(story, broken)) if traced else ()
    wrong = tuple(sentences(story, broken))
    return Verdict(seed, variant, wrong, len(story.events), counted, trace, " --cluster")
