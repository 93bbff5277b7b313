"""Histograms and single values on their way from the counters to Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric

from timerd.core.dispatch import Histogram


class Curve(NamedTuple):
    """A histogram as it was."""

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


def curve_of(histogram: Histogram) -> Curve:
    return Curve(histogram.bounds, list(histogram.counts), histogram.total)


def add_curve(family: HistogramMetricFamily, labels: Iterable[str], curve: Curve, scale: float = 1) -> None:
    """`scale`: what the curve's unit has to be divided by to be seconds."""
    buckets, sofar = [], 0
    for bound, count in zip(curve.bounds, curve.counts, strict=False):
        sofar += count
        buckets.append((f"{bound / scale:g}", float(sofar)))
    buckets.append(("+Inf", float(sum(curve.counts))))
    family.add_metric(list(labels), buckets, curve.total / scale)


def gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))
