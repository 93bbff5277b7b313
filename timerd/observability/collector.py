"""Figures -> the metrics that Prometheus reads: names, units and labels stand here, and nowhere else.

Names end in their base unit (seconds, bytes) or in `_total`; label values are bounded: queues by
core/dispatch/queue_stats.py, all others by the code. No task, key, payload or address is ever a label.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from timerd.config import own_version
from timerd.core.sinks.breaker import TargetState
from timerd.core.taken import QueueKey
from timerd.observability.curves import add_curve, gauge
from timerd.observability.figures import Figures, TargetFigures
from timerd.observability.key_figures import key_metrics
from timerd.observability.limit_figures import adaptive_metrics, breaker_metrics, key_use_metrics, limit_metrics
from timerd.observability.own_health import health_metrics
from timerd.observability.pool_figures import pool_metrics

QUEUE = ("namespace", "queue")
Labels = TypeVar("Labels", bound=str | tuple[str, ...])


class _Once(Collector):
    """For one scrape."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        for part in (_queues, _tasks, _holding, _engine, _schedules, _targets, _calls, _store, _process):
            yield from part(self._figures)
        yield from limit_metrics(self._figures.limits)
        yield from key_use_metrics(self._figures.key_use)
        yield from breaker_metrics(self._figures.breakers)
        yield from adaptive_metrics(self._figures.adaptive)
        yield from pool_metrics(self._figures.pools)
        yield from key_metrics(self._figures.keys)
        yield from health_metrics(self._figures.health)


def exposition(figures: Figures) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Once(figures))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return generate_latest(registry)


def _queues(f: Figures) -> Iterator[Metric]:
    late = HistogramMetricFamily(
        "timerd_delivery_lateness_seconds", "From when a delivery is due to its sending to a worker.", labels=QUEUE
    )
    took = HistogramMetricFamily(
        "timerd_delivery_processing_seconds", "From sending to the worker's answer, or its lease's end.", labels=QUEUE
    )
    attempts = HistogramMetricFamily(
        "timerd_delivery_attempts", "Which attempt of its task a delivery that was sent is.", labels=QUEUE
    )
    outcome = CounterMetricFamily(
        "timerd_deliveries_settled", "Deliveries by what became of them.", labels=(*QUEUE, "outcome")
    )
    dead = CounterMetricFamily("timerd_dead_letters", "Tasks that became dead letters.", labels=QUEUE)
    for queue, each in f.queues.items():
        add_curve(late, queue, each.lateness, 1000)
        add_curve(took, queue, each.processing, 1000)
        add_curve(attempts, queue, each.attempts)
        for name, number in each.outcomes.items():
            outcome.add_metric((*queue, name), number)
        dead.add_metric(queue, each.dead)
    yield from (late, took, attempts, outcome, dead)


def _tasks(f: Figures) -> Iterator[Metric]:
    yield _each(CounterMetricFamily("timerd_tasks_scheduled", "Tasks stored by callers.", labels=QUEUE), f.scheduled)
    yield _each(
        GaugeMetricFamily("timerd_tasks_pending", "Tasks that are not due yet; an estimate.", labels=QUEUE), f.pending
    )
    yield _each(
        GaugeMetricFamily("timerd_tasks_due", "Tasks in memory that are due and not with a worker.", labels=QUEUE),
        f.due,
    )
    waits = "Buckets of the store in which due tasks may wait for a worker, of queues that have none."
    yield _each(GaugeMetricFamily("timerd_backlog_buckets", waits, labels=QUEUE), f.backlogs)
    yield _each(
        CounterMetricFamily("timerd_tasks_changed", "Cancels, moves, purges and redrives.", labels=("change",)),
        f.changed,
    )
    yield _each(
        CounterMetricFamily("timerd_quota_taken", "What counted towards quotas.", labels=("namespace", "quota")),
        f.quota_taken,
    )
    yield _each(
        CounterMetricFamily("timerd_quota_refused", "Calls over a quota.", labels=("namespace", "quota")),
        f.quota_refused,
    )
    used = "What a namespace with a quota has."
    yield _each(GaugeMetricFamily("timerd_quota_used", used, labels=("namespace", "quota")), f.quota_used)
    yield gauge("timerd_tasks_in_flight", "Deliveries that are with workers.", f.in_flight)
    yield gauge("timerd_tasks_loaded", "Tasks in memory.", f.loaded)
    yield gauge("timerd_oldest_due_seconds", "How long the oldest task that has come due waits.", f.oldest_due_s)


def _holding(f: Figures) -> Iterator[Metric]:
    yield _each(
        GaugeMetricFamily("timerd_partitions_held", "Partitions held, by phase.", labels=("phase",)), f.partitions
    )
    yield _each(
        CounterMetricFamily("timerd_partition_events", "What happened to partitions.", labels=("event",)),
        f.partition_events,
    )
    yield _each(
        CounterMetricFamily("timerd_lease_events", "What became of this instance's lease.", labels=("event",)),
        f.lease_events,
    )
    yield gauge("timerd_lease_age_seconds", "Since the last sign of life that the store has; 0 alone.", f.lease_age_s)
    yield gauge("timerd_lease_sure", "1 while this instance may believe that it holds what it holds.", f.lease_sure)
    yield CounterMetricFamily(
        "timerd_sweep_rescued_rows", "Rows that the sweep found before a hint told of them.", value=f.rescued_rows
    )
    yield gauge("timerd_rows_not_understood", "Rows of a later release that wait for an upgrade.", f.foreign_rows)


def _engine(f: Figures) -> Iterator[Metric]:
    yield gauge("timerd_instances", "Instances that live, as this one sees it; it counts itself.", f.instances)
    yield CounterMetricFamily("timerd_hints_dropped", "Hints to other instances that were lost.", value=f.hints_dropped)
    yield _each(
        CounterMetricFamily("timerd_hint_messages", "Messages with hints through Redis.", labels=("outcome",)),
        f.hint_messages,
    )
    yield gauge("timerd_mark_lag_seconds", "How far the slowest partition's mark is behind.", f.mark_lag_s)
    yield gauge("timerd_memory_used_bytes", "What loaded tasks take.", f.memory_used_bytes)
    yield gauge("timerd_memory_budget_bytes", "What loaded tasks may take.", f.memory_budget_bytes)
    yield gauge("timerd_ingest_used_bytes", "Requests that are being taken in.", f.ingest_used_bytes)
    yield gauge("timerd_ingest_budget_bytes", "What may be taken in at one time.", f.ingest_budget_bytes)
    yield gauge("timerd_clock_trusted", "1 while the wall clock runs steadily; 0: nothing fires.", f.clock_trusted)
    yield gauge("timerd_clock_offset_seconds", "Wall clock less engine time.", f.clock_offset_s)
    if f.facts is not None:
        yield _each(
            GaugeMetricFamily(
                "timerd_ledger_rows", "Rows of the buckets that are kept, by their end.", labels=("outcome",)
            ),
            {name: number for name, number in f.facts.ledger.items() if name != "unexplained"},
        )
        yield gauge(
            "timerd_ledger_imbalance_rows", "Rows without a known end; must be 0.", f.facts.ledger["unexplained"]
        )


def _schedules(f: Figures) -> Iterator[Metric]:
    yield _each(
        CounterMetricFamily("timerd_schedule_ticks", "Ticks of schedules by what they came to.", labels=("outcome",)),
        {name.replace(" ", "_"): number for name, number in f.schedules.ticks.items()},
    )
    yield _each(
        CounterMetricFamily(
            "timerd_schedule_instants", "Instants of schedules by what was recorded of them.", labels=("outcome",)
        ),
        f.schedules.instants,
    )
    yield gauge("timerd_schedules_broken", "Schedules whose ticks fail again and again.", f.schedules.broken)
    if (zones := f.schedules.zones) is not None:
        swept = CounterMetricFamily(
            "timerd_schedules_swept", "Schedules by what a sweep after a new tzdata did here.", labels=("outcome",)
        )
        yield _each(swept, zones.swept)
        yield gauge("timerd_zone_sweep_open", "1 while a sweep is under way or held.", zones.is_open)
        yield gauge("timerd_zones_differing", "Zones in use whose schedules are left to others.", zones.differing)


def _targets(f: Figures) -> Iterator[Metric]:
    said = "Requests to targets of webhooks by what they came to."
    yield from _of_targets(f.webhooks, "timerd_webhook_requests", said, "timerd_webhook_state", "target of webhooks")
    said = "Entries for streams by what they came to."
    yield from _of_targets(f.stream_targets, "timerd_stream_entries", said, "timerd_stream_state", "stream")


def _of_targets(
    targets: Mapping[QueueKey, TargetFigures], counted: str, says: str, shown: str, what: str
) -> Iterator[Metric]:
    outcomes = CounterMetricFamily(counted, says, labels=(*QUEUE, "outcome"))
    states = GaugeMetricFamily(shown, f"1 for the state that a {what} is in.", labels=(*QUEUE, "state"))
    for queue, each in targets.items():
        for name, number in each.outcomes.items():
            outcomes.add_metric((*queue, name), number)
        for state in TargetState:
            states.add_metric((*queue, state.value), state.value == each.state)
    yield from (outcomes, states)


def _calls(f: Figures) -> Iterator[Metric]:
    yield _each(
        CounterMetricFamily("timerd_requests", "Requests by method and code.", labels=("method", "code")), f.calls
    )
    took = HistogramMetricFamily("timerd_request_duration_seconds", "Until the answer is made.", labels=("method",))
    for method, curve in f.call_times.items():
        add_curve(took, (method,), curve)
    yield took
    answered = HistogramMetricFamily(
        "timerd_call_seconds", "Calls that wait for what becomes of their task, by its state.", labels=("outcome",)
    )
    for outcome, curve in f.answered_calls.items():
        add_curve(answered, (outcome,), curve)
    yield answered
    yield gauge("timerd_streams_open", "Session and Work streams.", f.streams)
    yield gauge("timerd_workers", "Work streams.", f.workers)


def _store(f: Figures) -> Iterator[Metric]:
    took = HistogramMetricFamily("timerd_store_duration_seconds", "Calls of the store.", labels=("call",))
    for name, curve in f.store_times.items():
        add_curve(took, (name,), curve)
    yield took
    yield _each(
        CounterMetricFamily("timerd_store_errors", "Calls of the store that failed.", labels=("call", "error")),
        f.store_failed,
    )
    yield _each(
        CounterMetricFamily(
            "timerd_store_changes",
            "Compare-and-sets (leases, marks, keys, moves) by result.",
            labels=("register", "result"),
        ),
        f.store_changes,
    )
    if f.facts is not None:
        yield gauge("timerd_disk_free_bytes", "Free on the disk of the data.", f.facts.disk_free_bytes)
        yield gauge("timerd_disk_used_bytes", "Taken by the data.", f.facts.disk_used_bytes)


def _process(f: Figures) -> Iterator[Metric]:
    lag = HistogramMetricFamily("timerd_event_loop_lag_seconds", "How late the event loop is.", labels=())
    add_curve(lag, (), f.loop_lag)
    yield gauge("timerd_event_loop_busy_ratio", "Processor time of the event loop's thread, of 1.", f.loop_busy)
    yield gauge("timerd_saturation_ratio", "Of memory, intake and event loop the fullest, of 1.", f.saturation)
    yield lag
    yield _each(
        CounterMetricFamily("timerd_unforeseen_errors", "Errors that no code expects.", labels=("work",)), f.unforeseen
    )
    store = f.facts.store if f.facts is not None else ""
    info = GaugeMetricFamily("timerd_build_info", "1; what runs here.", labels=("version", "store"))
    info.add_metric((own_version(), store), 1)
    yield info


def _each(family: CounterMetricFamily | GaugeMetricFamily, numbers: Mapping[Labels, int]) -> Metric:
    """By the value of its label, or the values of its labels."""
    for labels, number in numbers.items():
        family.add_metric((labels,) if isinstance(labels, str) else labels, number)
    return family
