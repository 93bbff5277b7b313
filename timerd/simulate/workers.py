"""The workers: jobs start in the order in which they were queued, each as soon as a worker is free."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapreplace
from math import inf
from typing import NamedTuple

from timerd.simulate.jobs import Outcome
from timerd.simulate.settings import Outage, Settings


class Served(NamedTuple):
    """Of each job."""

    started_s: list[float]
    ended_s: list[float]
    outcome: list[int]


class Workers:
    def __init__(self, settings: Settings, patience_s: float = inf) -> None:
        # The instants from which each of them is free, as a heap.
        self._free_s = [0.0] * settings.workers
        self._down = _outages(settings)
        self._stops = sorted((each.from_s, each.to_s) for each in settings.stops)
        # A job that has waited so long is not started any more.
        self._patience_s = patience_s

    def serve(self, queued_s: Sequence[float], takes_s: Sequence[float], sources: Sequence[int]) -> Served:
        """`queued_s` rises, also from call to call."""
        free_s, down, stops, patience_s = self._free_s, self._down, self._stops, self._patience_s
        done, expired = int(Outcome.DONE), int(Outcome.EXPIRED)
        served = Served([], [], [])
        start, end, become = served.started_s.append, served.ended_s.append, served.outcome.append
        for queued, takes, source in zip(queued_s, takes_s, sources, strict=True):
            at, outcome, until = free_s[0], done, takes
            if at < queued:  # noqa: PLR1730 - max() takes as long as all the rest of a turn
                at = queued
            if stops:
                at = _resumed(stops, at)
            if at - queued >= patience_s:
                start(inf)
                end(queued + patience_s)
                become(expired)
                continue
            if source in down:
                until, outcome = _attempt(down[source], at, takes)
            until += at
            heapreplace(free_s, until)
            start(at)
            end(until)
            become(outcome)
        return served


def _outages(settings: Settings) -> dict[int, list[Outage]]:
    """By the index of their source."""
    found = {at: [down for down in settings.outages if down.source == e.name] for at, e in enumerate(settings.sources)}
    return {at: outages for at, outages in found.items() if outages}


def _attempt(outages: Sequence[Outage], at_s: float, takes_s: float) -> tuple[float, int]:
    for outage in outages:
        if outage.from_s <= at_s < outage.to_s:
            return outage.attempt_s or takes_s, int(Outcome.FAILED)
    return takes_s, int(Outcome.DONE)


def _resumed(stops: Sequence[tuple[float, float]], at_s: float) -> float:
    """In order, so that one may begin where another ends."""
    for from_s, to_s in stops:
        if from_s <= at_s < to_s:
            at_s = to_s
    return at_s
