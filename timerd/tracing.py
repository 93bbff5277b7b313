"""Traces through a task: `Client(tracing=Tracing())`, `Worker(tracing=Tracing())`. Needs `pip install 'timerd[otel]'`.

A task takes the trace along that is current where it is scheduled. Its handler runs in a span of a trace of its own,
with a link to that one: a trace that stayed open until the task fires, perhaps for months, would be of use to nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as missing:
    raise ImportError(
        "timerd.tracing needs OpenTelemetry, which is not installed: pip install 'timerd[otel]'."
    ) from missing

from timerd.sdk.values import Delivery
from timerd.sdk.working import Retry, Throttled

_TRACE_CONTEXT = TraceContextTextMapPropagator()
# What an SDK keeps of a span by itself.
MOST_LINKS = 128


class Tracing:
    """`provider`: who makes the spans; without one, the provider that OpenTelemetry has when a span begins."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("timerd", tracer_provider=provider)

    def traceparent(self) -> str:
        """Of the span that is current, or ""."""
        carrier: dict[str, str] = {}
        _TRACE_CONTEXT.inject(carrier)
        return carrier.get("traceparent", "")

    @contextmanager
    def handling(self, deliveries: Sequence[Delivery]) -> Iterator[None]:
        """A failure of the handler is one of the span; `Retry` and `Throttled` are none: the handler chose them."""
        queue = deliveries[0].queue
        with self._tracer.start_as_current_span(
            f"process {queue}",
            context=Context(),
            kind=trace.SpanKind.CONSUMER,
            links=_links(deliveries),
            attributes={
                "messaging.system": "timerd",
                "messaging.operation.type": "process",
                "messaging.operation.name": "process",
                "messaging.destination.name": queue,
            },
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            if span.is_recording():
                _describe(span, deliveries)
            try:
                yield
            except (Retry, Throttled):
                raise
            except BaseException as failure:
                span.record_exception(failure)
                span.set_status(trace.StatusCode.ERROR, f"{type(failure).__name__}: {failure}")
                raise


def _links(deliveries: Sequence[Delivery]) -> list[trace.Link]:
    """To each of the traces once."""
    links: dict[str, trace.Link] = {}
    for delivery in deliveries:
        traceparent = delivery.traceparent
        if not traceparent or traceparent in links:
            continue
        context = _TRACE_CONTEXT.extract({"traceparent": traceparent}, context=Context())
        scheduled = trace.get_current_span(context).get_span_context()
        if scheduled.is_valid:
            links[traceparent] = trace.Link(scheduled)
            if len(links) == MOST_LINKS:
                break
    return [*links.values()]


def _describe(span: trace.Span, deliveries: Sequence[Delivery]) -> None:
    """No payload, no label and no key: they are the callers' own."""
    if len(deliveries) > 1:
        span.set_attribute("messaging.batch.message_count", len(deliveries))
        return
    delivery = deliveries[0]
    span.set_attributes(
        {
            "messaging.message.id": delivery.task_id,
            "timerd.delivery_id": delivery.delivery_id,
            "timerd.attempt": delivery.attempt,
            "timerd.fire_time": delivery.fire_time.isoformat(timespec="milliseconds"),
            "timerd.lateness_ms": delivery.lateness.total_seconds() * 1000,
        }
    )
