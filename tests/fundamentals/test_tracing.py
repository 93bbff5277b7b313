"""A trace that is current where a task is scheduled is found again where it is handled: by a link, months later too."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from timerd import Delivery, Reject, Retry, SyncClient
from timerd.client import Client, InvalidTask
from timerd.sdk.values.task_fields import Item
from timerd.testing import Server
from timerd.tracing import Tracing


class Traced:
    """A program with OpenTelemetry: it schedules within spans, and its worker's spans are collected."""

    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.tracer = self.provider.get_tracer("the program")
        self.tracing = Tracing(self.provider)

    def of_handlers(self) -> list[ReadableSpan]:
        return [span for span in self.spans.get_finished_spans() if span.kind is trace.SpanKind.CONSUMER]


@pytest.fixture
def traced() -> Traced:
    return Traced()


def linked(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def ids(span: trace.Span) -> tuple[int, int]:
    context = span.get_span_context()
    return context.trace_id, context.span_id


async def test_a_handler_runs_in_a_span_that_links_to_where_its_task_was_scheduled(
    server: Server, traced: Traced
) -> None:
    client, worker = server.client(tracing=traced.tracing), server.worker(tracing=traced.tracing)
    inside: list[tuple[int, int]] = []

    @worker.on("mails")
    async def send(delivery: Delivery) -> None:
        inside.append(ids(trace.get_current_span()))

    await worker.start()
    with traced.tracer.start_as_current_span("order") as order:
        task = await client.schedule("mails", b"hello", delay=90 * 86_400)
    await server.advance(days=90)
    [span] = traced.of_handlers()
    assert linked(span) == [ids(order)]
    assert span.parent is None
    assert span.context.trace_id != ids(order)[0]
    assert inside == [(span.context.trace_id, span.context.span_id)]
    assert span.name == "process mails"
    assert span.attributes is not None
    assert span.attributes["messaging.message.id"] == task.id
    assert span.attributes["timerd.attempt"] == 1
    assert span.status.is_ok or span.status.is_unset


async def test_a_plain_function_sees_its_span_in_its_thread(server: Server, traced: Traced) -> None:
    worker = server.worker(tracing=traced.tracing)
    inside: list[tuple[int, int]] = []
    worker.on("mails")(lambda delivery: inside.append(ids(trace.get_current_span())))
    await worker.start()
    await server.client().schedule("mails", b"", delay=1)
    await server.advance(seconds=2)
    [span] = traced.of_handlers()
    assert inside == [(span.context.trace_id, span.context.span_id)]
    assert linked(span) == []


async def test_every_attempt_has_a_span_and_only_failures_are_errors(server: Server, traced: Traced) -> None:
    client, worker = server.client(tracing=traced.tracing), server.worker(tracing=traced.tracing)
    ends: list[Exception] = [ValueError("the printer burns"), Retry(1), Reject("no such address")]

    @worker.on("mails")
    async def send(delivery: Delivery) -> None:
        raise ends[delivery.attempt - 1]

    await worker.start()
    with traced.tracer.start_as_current_span("order") as order:
        await client.schedule("mails", b"hello", delay=1)
    await server.advance(minutes=1)
    spans = traced.of_handlers()
    assert [linked(span) for span in spans] == [[ids(order)]] * 3
    assert [(span.attributes or {})["timerd.attempt"] for span in spans] == [1, 2, 3]
    assert [span.status.description for span in spans] == [
        "ValueError: the printer burns", None, "Reject: no such address",
    ]  # fmt: skip
    assert [event.name for event in spans[0].events] == ["exception"]


async def test_a_batch_links_to_each_of_its_traces_once(server: Server, traced: Traced) -> None:
    client, worker = server.client(tracing=traced.tracing), server.worker(tracing=traced.tracing)

    @worker.on_batch("mails")
    async def send(deliveries: list[Delivery]) -> None:
        return None

    at = server.now.replace(minute=1)
    orders = []
    for count in (2, 1):
        with traced.tracer.start_as_current_span("order") as order:
            await client.schedule_many("mails", [Item(b"x", at=at)] * count)
            orders.append(order)
    await client.schedule("mails", b"of no trace", at=at)
    await server.advance(minutes=2)
    await worker.start()
    await server.settle()
    [span] = traced.of_handlers()
    assert sorted(linked(span)) == sorted(map(ids, orders))
    assert (span.attributes or {})["messaging.batch.message_count"] == 4


async def test_of_calls_at_one_time_each_keeps_its_own_trace(server: Server, traced: Traced) -> None:
    client, worker = server.client(tracing=traced.tracing), server.worker(tracing=traced.tracing)
    arrived: dict[bytes, str] = {}

    @worker.on("mails")
    async def send(delivery: Delivery) -> None:
        arrived[delivery.payload] = delivery.traceparent

    await worker.start()

    async def order(number: int) -> tuple[bytes, str]:
        payload = b"%d" % number
        if number % 5 == 0:
            await client.schedule("mails", payload, delay=1)
            return payload, ""
        with traced.tracer.start_as_current_span("order"):
            await client.schedule("mails", payload, delay=1)
            return payload, traced.tracing.traceparent()

    sent = dict(await asyncio.gather(*map(order, range(100))))
    await server.advance(seconds=2)
    assert arrived == sent
    assert len(set(sent.values())) == 81


async def test_what_the_caller_says_himself_goes_before_what_is_current(server: Server, traced: Traced) -> None:
    client = server.client(tracing=traced.tracing)
    own = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with traced.tracer.start_as_current_span("order"):
        task = await client.schedule("mails", b"", delay=1, traceparent=own)
    shown = await client.get(task.id)
    assert shown.traceparent == own


async def test_the_trace_of_a_thread_reaches_the_sync_client(server: Server, traced: Traced) -> None:
    def order() -> tuple[str, str]:
        client = SyncClient(server.address, clock=lambda: server.now, tracing=traced.tracing)
        with client, traced.tracer.start_as_current_span("order"):
            return client.schedule("mails", b"", delay=60).id, traced.tracing.traceparent()

    task_id, current = await asyncio.to_thread(order)
    assert current
    assert (await server.client().get(task_id)).traceparent == current


async def test_the_trace_outlives_the_server(tmp_path: Path, traced: Traced) -> None:
    async with Server(data=tmp_path) as server:
        client, worker = server.client(tracing=traced.tracing), server.worker(tracing=traced.tracing)

        @worker.on("mails")
        async def send(delivery: Delivery) -> None:
            return None

        with traced.tracer.start_as_current_span("order") as order:
            await client.schedule("mails", b"hello", delay=3600)
        await server.restart()
        await worker.start()
        await server.advance(hours=2)
    [span] = traced.of_handlers()
    assert linked(span) == [ids(order)]


WRONG = {
    "nonsense": "nonsense",
    "version ff": "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "no trace": "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
    "no span": "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
    "upper case": "00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01",
    "more than version 00 has": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
    "a line end": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n",
}


@pytest.mark.parametrize("traceparent", WRONG.values(), ids=WRONG.keys())
async def test_what_is_no_traceparent_is_refused_before_anything_is_written(
    server: Server, client: Client, traceparent: str
) -> None:
    with pytest.raises(InvalidTask, match="is no W3C trace context: write 00-<32 hex digits>") as refused:
        await client.schedule("mails", b"", delay=1, traceparent=traceparent)
    assert refused.value.field == "template.traceparent"
    assert dict((await server.node.engine.facts()).ledger)["inserted"] == 0


async def test_a_later_version_may_say_more(client: Client) -> None:
    later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"
    task = await client.schedule("mails", b"", delay=1, traceparent=later)
    assert (await client.get(task.id)).traceparent == later


IMPORTS = """
import sys
{before}
import timerd, timerd.client, timerd.worker, timerd.bootstrap
print([name for name in sys.modules if name.startswith("opentelemetry") or name == "timerd.tracing"])
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


def test_who_does_not_trace_imports_nothing_of_it() -> None:
    assert run(IMPORTS.format(before="")).stdout == "[]\n"


def test_without_the_extra_the_import_says_how_to_get_it() -> None:
    ended = run("import sys\nsys.modules['opentelemetry'] = None\nimport timerd.tracing")
    assert "ImportError: timerd.tracing needs OpenTelemetry, which is not installed: pip install 'timerd[otel]'." in (
        ended.stderr
    )
