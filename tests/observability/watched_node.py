"""What the metrics of an instance are made from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from timerd.observability.figures import Observed
from timerd.observability.store_timing import StoreTimes
from timerd.services.node import Node


@contextmanager
def watched(node: Node) -> Iterator[Observed]:
    assert node.probe is not None
    parts = (node.engine, node.scheduler, node.delivery, node.server.api, node.time)
    last = node.ticks, node.zone_sweep, node.webhooks, node.regulating, node.streams
    yield Observed(*parts, StoreTimes(), node.probe, None, *last)
