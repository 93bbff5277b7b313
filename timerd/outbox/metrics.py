"""What a relay tells Prometheus: of the tables, of all relays; and what it has done itself.

Label values are the namespaces that rows name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from timerd.outbox.ports import OutboxFacts
from timerd.outbox.relay import Relay

_NAMESPACE = ("namespace",)
_HELD = ("namespace", "queue", "reason")


class _OutboxScrape(Collector):
    """For one scrape."""

    def __init__(self, facts: OutboxFacts | None, relay: Relay) -> None:
        self._facts = facts
        self._relay = relay

    def collect(self) -> Iterable[Metric]:
        if self._facts is not None:
            yield from _of_tables(self._facts)
        yield from _of_relay(self._relay)


def exposition(facts: OutboxFacts | None, relay: Relay) -> bytes:
    """`facts` None: the database does not answer."""
    registry = CollectorRegistry()
    registry.register(_OutboxScrape(facts, relay))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def _of_tables(facts: OutboxFacts) -> Iterable[Metric]:
    each = facts.namespaces
    yield _gauges("timerd_outbox_rows", "Rows that wait, up to 100,000.", {ns: of.rows for ns, of in each.items()})
    ages = {ns: (facts.now_ms - of.oldest_ms) / 1000 for ns, of in each.items() if of.oldest_ms}
    yield _gauges("timerd_outbox_oldest_row_seconds", "How long the oldest row has waited.", ages)
    yield _gauges("timerd_outbox_sealed_rows", "Rows on their way.", {ns: of.sealed for ns, of in each.items()})
    refused = {ns: of.refused for ns, of in each.items()}
    yield _gauges("timerd_outbox_refused_rows", "Rows that were refused and wait for somebody.", refused)


def _of_relay(relay: Relay) -> Iterable[Metric]:
    yield _counters("timerd_outbox_sent", "Rows that this relay has sent.", relay.sent)
    yield _counters("timerd_outbox_refused", "Rows that were refused to this relay.", relay.refused)
    again = CounterMetricFamily("timerd_outbox_batches_sent_again", "Batches that were not answered, or not taken.")
    again.add_metric([], relay.counts["again"])
    yield again
    yield _held_up(relay)


def _held_up(relay: Relay) -> Metric:
    """A batch counts to the first of its queues."""
    rows: Counter[tuple[str, str, str]] = Counter()
    for held in relay.held_up:
        rows[(*min(held.names), held.reason)] += held.tasks
    family = GaugeMetricFamily(
        "timerd_outbox_held_up_rows", "Sealed rows that the server takes nothing of.", labels=_HELD
    )
    for labels, count in rows.items():
        family.add_metric(labels, float(count))
    return family


def _gauges(name: str, text: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=_NAMESPACE)
    for namespace, value in values.items():
        family.add_metric([namespace], float(value))
    return family


def _counters(name: str, text: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=_NAMESPACE)
    for namespace, value in values.items():
        family.add_metric([namespace], float(value))
    return family
