"""Limits and breakers as metrics: how much of each is used, what waits for it, and how often something had to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from timerd.core.regulation import AdaptiveLimits, Breakers, BreakerState, KeyUse, LimitLabels, RuleLimits
from timerd.core.taken import QueueKey

# Limits beyond so many are not told apart: they have no figures.
MOST_LIMITS = 200
_LABELS = LimitLabels._fields


class LimitFigures(NamedTuple):
    """`capacity`: how many may be in hand, 0 for any number; `waiting`: due tasks in memory of queues that it holds
    back; `throttled`: how often a queue had to wait for it; `pushed_back`: deliveries that came back to be held;
    `drawn`: tokens of its rate that this instance of a cluster has got, of which so many have `lapsed`."""

    in_hand: int
    capacity: int
    waiting: int
    throttled: int
    pushed_back: int
    drawn: int = 0
    lapsed: int = 0


def limits_of(
    limits: RuleLimits | None,
    pushed_back: Mapping[LimitLabels, int],
    due: Callable[[Collection[QueueKey]], int],
    keys: Mapping[LimitLabels, KeyUse],
) -> Mapping[LimitLabels, LimitFigures]:
    """`due`: how many tasks of these queues are due in memory. `keys`: what each limit key has a limit of."""
    if limits is None:
        return {}
    used = set(limits.used())
    named = {labels for labels in keys if labels.limit}
    found = sorted(used | named | pushed_back.keys())[:MOST_LIMITS]
    return {
        labels: _used(limits, labels, pushed_back.get(labels, 0), due)
        if labels in used
        else _used_by_keys(keys.get(labels) if labels.limit else None, pushed_back.get(labels, 0))
        for labels in found
    }


def _used_by_keys(use: KeyUse | None, pushed_back: int) -> LimitFigures:
    """Of all keys of a keyed limit together, which no number bounds."""
    if use is None:
        return LimitFigures(0, 0, 0, 0, pushed_back)
    return LimitFigures(use.in_hand, 0, use.waiting, use.throttled, pushed_back, use.drawn, use.lapsed)


def _used(
    limits: RuleLimits, labels: LimitLabels, pushed_back: int, due: Callable[[Collection[QueueKey]], int]
) -> LimitFigures:
    count = limits.count_of(labels)
    hand, most = limits.in_hand_of(count.queues), count.limit.max_in_hand
    return LimitFigures(hand, most, due(count.waiting), count.throttled, pushed_back, *count.tokens)


def limit_metrics(limits: Mapping[LimitLabels, LimitFigures]) -> Iterator[Metric]:
    hand = GaugeMetricFamily("timerd_limit_in_hand", "Deliveries that count for a limit.", labels=_LABELS)
    most = GaugeMetricFamily("timerd_limit_capacity", "How many may be in hand; 0 for any number.", labels=_LABELS)
    waiting = GaugeMetricFamily("timerd_limit_waiting", "Due tasks that the limit holds back.", labels=_LABELS)
    throttled = CounterMetricFamily(
        "timerd_limit_throttled", "How often a queue with something due had to wait for the limit.", labels=_LABELS
    )
    pushed = CounterMetricFamily(
        "timerd_limit_pushed_back",
        "Deliveries of handlers that were throttled, so that the limit was held.",
        labels=_LABELS,
    )
    drawn = CounterMetricFamily(
        "timerd_limit_tokens_drawn", "Tokens of a rate that this instance of a cluster has got.", labels=_LABELS
    )
    lapsed = CounterMetricFamily(
        "timerd_limit_tokens_lapsed", "Of these, tokens that were not used in their second.", labels=_LABELS
    )
    of_rates = pushed, drawn, lapsed
    families: Sequence[GaugeMetricFamily | CounterMetricFamily] = (hand, most, waiting, throttled, *of_rates)
    for labels, each in limits.items():
        for family, number in zip(families, each, strict=True):
            family.add_metric(labels, number)
    yield from families


def key_use_metrics(keys: Mapping[LimitLabels, KeyUse]) -> Iterator[Metric]:
    """No key is a label."""
    states = GaugeMetricFamily(
        "timerd_limit_keys",
        "Limit keys that are in hand, and those that the limit, or the rules of the queue, hold back.",
        labels=(*_LABELS, "state"),
    )
    most = GaugeMetricFamily(
        "timerd_limit_key_capacity", "How many of one limit key may be in hand; 0 for any number.", labels=_LABELS
    )
    for labels, each in sorted(keys.items())[:MOST_LIMITS]:
        states.add_metric((*labels, "in_hand"), each.keys_in_hand)
        states.add_metric((*labels, "held"), each.keys_held)
        most.add_metric(labels, each.capacity)
    yield from (states, most)


class BreakerFigures(NamedTuple):
    """`state`: 0 is CLOSED, 1 HALF_OPEN, 2 OPEN. `openings`: how often it has opened."""

    state: int
    openings: int


_STATES = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}


def breakers_of(breakers: Breakers, now_ms: int) -> Mapping[QueueKey, BreakerFigures]:
    found = sorted(breakers.used().items())[:MOST_LIMITS]
    return {queue: BreakerFigures(_STATES[breakers.state(queue, now_ms)[0]], each.openings) for queue, each in found}


def breaker_metrics(breakers: Mapping[QueueKey, BreakerFigures]) -> Iterator[Metric]:
    labels = QueueKey._fields
    state = GaugeMetricFamily("timerd_breaker_state", "0 closed, 1 half open, 2 open.", labels=labels)
    openings = CounterMetricFamily("timerd_breaker_openings", "How often a breaker has opened.", labels=labels)
    for queue, each in breakers.items():
        state.add_metric(queue, each.state)
        openings.add_metric(queue, each.openings)
    yield from (state, openings)


class AdaptiveFigures(NamedTuple):
    """`tasks`: how many may be in hand now. `decreases`: how often these became less."""

    tasks: int
    decreases: int


def adaptive_of(limits: AdaptiveLimits) -> Mapping[QueueKey, AdaptiveFigures]:
    found = sorted(limits.used().items())[:MOST_LIMITS]
    return {queue: AdaptiveFigures(each.tasks, each.decreases) for queue, each in found}


def adaptive_metrics(limits: Mapping[QueueKey, AdaptiveFigures]) -> Iterator[Metric]:
    labels = QueueKey._fields
    tasks = GaugeMetricFamily("timerd_adaptive_limit", "How many may be in hand now.", labels=labels)
    decreases = CounterMetricFamily("timerd_adaptive_decreases", "How often it became less.", labels=labels)
    for queue, each in limits.items():
        tasks.add_metric(queue, each.tasks)
        decreases.add_metric(queue, each.decreases)
    yield from (tasks, decreases)
