"""Ordering keys as a metric: how many of each queue wait, are in hand or stand still. No key is a label."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from timerd.core.dispatch import OTHERS
from timerd.core.ordering import KeyPhase, OrderKeys
from timerd.core.taken import QueueKey

KeyFigures = Mapping[tuple[QueueKey, KeyPhase], int]


def keys_of(keys: OrderKeys, known: Container[QueueKey]) -> KeyFigures:
    """Of queues that are told apart, each phase; of all others together."""
    found: dict[tuple[QueueKey, KeyPhase], int] = {}
    for (queue, phase), number in keys.counts().items():
        shown = queue if queue in known else OTHERS
        for each in KeyPhase:
            found.setdefault((shown, each), 0)
        found[shown, phase] += number
    return found


def key_metrics(keys: KeyFigures) -> Iterator[Metric]:
    states = GaugeMetricFamily(
        "timerd_keys",
        "Ordering keys with tasks in memory: waiting, with a task in hand, or halted by a dead letter.",
        labels=(*QueueKey._fields, "state"),
    )
    for (queue, phase), number in keys.items():
        states.add_metric((*queue, phase.value), number)
    yield states
