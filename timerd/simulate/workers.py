"""The workers: jobs start in the order in which they were queued, each as soon as a worker is free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from heapq import heapreplace
from math import inf
from typing import NamedTuple

from timerd.simulate.jobs import JobOutcome
from timerd.simulate.settings import Settings


class Served(NamedTuple):
    """Of each job."""

    started_s: list[float]
    ended_s: list[float]
    outcome: list[int]


class Workers:
    def __init__(self, settings: Settings, timeout_s: float = inf) -> None:
        # The instants from which each of them is free, as a heap.
        self._free_s = [0.0] * settings.workers
        self._down = _outages(settings)
        self._stops = sorted((each.from_s, each.to_s) for each in settings.stops)
        # A job that has waited so long is not started any more; times are whole milliseconds.
        self._timeout_s = timeout_s - 0.0005

    def serve(self, queued_s: Sequence[float], takes_s: Sequence[float], sources: Sequence[int]) -> Served:
        """`queued_s` rises, also from call to call."""
        free_s, down, stops, timeout_s = self._free_s, self._down, self._stops, self._timeout_s
        done, failed, expired = int(JobOutcome.DONE), int(JobOutcome.FAILED), int(JobOutcome.EXPIRED)
        served = Served([], [], [])
        start, end, become = served.started_s.append, served.ended_s.append, served.outcome.append
        for queued, takes, source in zip(queued_s, takes_s, sources, strict=True):
            at, outcome, lasts = free_s[0], done, takes
            if at < queued:  # noqa: PLR1730 - max() takes as long as all the rest of a turn
                at = queued
            if stops:
                at = _resumed(stops, at)
            if at - queued >= timeout_s:
                start(inf)
                end(queued + timeout_s)
                become(expired)
                continue
            if source in down:
                for from_s, to_s, attempt_s in down[source]:
                    if from_s <= at < to_s:
                        lasts, outcome = attempt_s or takes, failed
            heapreplace(free_s, at + lasts)
            start(at)
            end(at + lasts)
            become(outcome)
        return served


def _outages(settings: Settings) -> dict[int, list[tuple[float, float, float]]]:
    """By the index of their source: (from, to, how long a try takes)."""
    found = defaultdict(list)
    names = [each.name for each in settings.sources]
    for each in settings.outages:
        found[names.index(each.source)].append((each.from_s, each.to_s, each.attempt_s))
    return dict(found)


def _resumed(stops: Sequence[tuple[float, float]], at_s: float) -> float:
    """In order, so that one may begin where another ends."""
    for from_s, to_s in stops:
        if from_s <= at_s < to_s:
            at_s = to_s
    return at_s
