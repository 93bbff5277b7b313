"""Calls: a thousand, one after the other, whose handler does nothing; then 200 at a time.

A call is a durable task, a worker's handler, and a durable result, in one request. Server, worker and caller have a
process each; what is measured is the time from the request until the result is there.
"""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.figures import Figure, at_most
from benchmarks.processes import Child
from benchmarks.stats import percentile

TITLE = "Calls, one and many at a time"
CALLS = 1_000
AT_ONCE, OF_EACH = 200, 25


async def run(bench: Bench) -> list[Figure]:
    server = await bench.server()
    loader = await bench.loader(server)
    await bench.receiver(server, loader, "calls", batches=False, compact=True)
    caller = await Child.start("caller", "-m", "benchmarks.caller")
    bench.stack.push_async_callback(caller.stop)
    await caller.ask("start", target=server.address)
    count, each = bench.count(CALLS, 20), bench.count(OF_EACH, 2)
    await caller.ask("calls", at_once=1, each=20)
    alone_s = server.cpu_s()
    alone = await caller.ask("calls", at_once=1, each=count)
    alone_s, many_s = server.cpu_s() - alone_s, server.cpu_s()
    many = await caller.ask("calls", at_once=AT_ONCE, each=each)
    many_s = server.cpu_s() - many_s
    await caller.ask("stop")
    return [
        Figure("one at a time, p50", percentile(alone["waits_ms"], 0.5), "ms", at_most(2), headline=True),
        Figure("one at a time, p99", percentile(alone["waits_ms"], 0.99), "ms", at_most(10)),
        Figure("one at a time, server CPU", alone_s / count * 1e6, "us/call"),
        Figure("200 at a time", AT_ONCE * each / many["span_s"], "calls/s"),
        Figure("200 at a time, p99", percentile(many["waits_ms"], 0.99), "ms"),
        Figure("200 at a time, server CPU", many_s / (AT_ONCE * each) * 1e6, "us/call"),
    ]
