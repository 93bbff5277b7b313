"""How an instance finds itself, as metrics: its health as checks see it, and how its canary fares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from timerd.observability.curves import Curve, add_curve, curve_of, gauge
from timerd.services.health.health_board import LIVE, PARTS, READY
from timerd.services.readiness import ReadinessProbe


@dataclass(frozen=True, slots=True)
class CanaryFigures:
    interval_s: float
    age_s: float
    runs: Mapping[str, int]
    round_trip: Curve
    lateness: Curve


@dataclass(frozen=True, slots=True)
class HealthFigures:
    """`serving`: what a health check of each part would say."""

    serving: Mapping[str, bool]
    canary: CanaryFigures | None


def health_of(probe: ReadinessProbe) -> HealthFigures:
    names = {READY: "ready"} | {part: part for part in (*PARTS, LIVE)}
    serving = {shown: probe.board.is_serving(part) for part, shown in names.items()}
    return HealthFigures(serving, _canary_of(probe))


def _canary_of(probe: ReadinessProbe) -> CanaryFigures | None:
    canary = probe.canary
    if canary is None:
        return None
    round_trip, lateness = curve_of(canary.round_trip_ms), curve_of(canary.worker.lateness_ms)
    return CanaryFigures(canary.settings.interval_ms / 1000, canary.age_s, dict(canary.runs), round_trip, lateness)


def health_metrics(figures: HealthFigures) -> Iterator[Metric]:
    serving = GaugeMetricFamily(
        "timerd_health_serving", "1 while a health check of the part succeeds.", labels=("part",)
    )
    for part, is_serving in figures.serving.items():
        serving.add_metric((part,), float(is_serving))
    yield serving
    canary = figures.canary
    interval_s = canary.interval_s if canary is not None else 0.0
    yield gauge("timerd_canary_interval_seconds", "How often there is a canary; 0: never.", interval_s)
    if canary is not None:
        yield from _canary_metrics(canary)


def _canary_metrics(canary: CanaryFigures) -> Iterator[Metric]:
    yield gauge("timerd_canary_age_seconds", "Since the last canary that came through, or the start.", canary.age_s)
    runs = CounterMetricFamily("timerd_canary_runs", "Canaries by what became of them.", labels=("outcome",))
    for outcome, number in canary.runs.items():
        runs.add_metric((outcome,), number)
    yield runs
    took = HistogramMetricFamily(
        "timerd_canary_round_trip_seconds",
        "From the call to the ack that is durable; a second of it is meant.",
        labels=(),
    )
    add_curve(took, (), canary.round_trip, 1000)
    yield took
    late = HistogramMetricFamily(
        "timerd_canary_lateness_seconds", "From the fire time of a canary to its sending.", labels=()
    )
    add_curve(late, (), canary.lateness, 1000)
    yield late
