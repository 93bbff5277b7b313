"""Webhooks: 20,000 tasks due at one instant for one target with 50 requests in flight, then 500 tasks a second.

What a request takes of a core is what bounds an instance: it is signed, sent on a connection that stays open, answered
with 204, and its task acknowledged. The receiver is a process of its own that does as little as HTTP asks for. With it
and the load generator beside the server on two cores, the rate by the clock is lower than what a core could do.
"""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

from benchmarks.bench import PATIENCE_S, SECOND_MS, Bench, Loader, Span, none_lost, now_ms
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.processes import Child, Server

TITLE = "Webhooks"
QUEUE = "hooks"
IN_FLIGHT = 50
BURST = 20_000
RATE_PER_S, SECONDS = 500, 8


async def run(bench: Bench) -> list[Figure]:
    hooks = await Child.start("receiver of webhooks", "-m", "benchmarks.hooks", log=bench.folder / "hooks.log")
    bench.stack.push_async_callback(hooks.stop)
    port = (await hooks.ask("start"))["port"]
    server = await bench.server(*_flags(bench.folder, f"http://127.0.0.1:{port}/hook"))
    loader = await bench.loader(server)
    count = bench.count(BURST)
    burst, burst_cpu_s = await _fired(bench, server, loader, hooks, count, 1)
    steadily = bench.count(RATE_PER_S * SECONDS)
    steady, steady_cpu_s = await _fired(bench, server, loader, hooks, steadily, steadily * SECOND_MS // RATE_PER_S)
    twice = burst["received"] + steady["received"] - count - steadily
    return [
        Figure(
            "due at one instant, a core of the server",
            count / burst_cpu_s,
            "requests/s",
            at_least(1_500),
            headline=True,
        ),
        Figure("due at one instant, by the clock", count / max(burst["span_s"], 1e-3), "requests/s"),
        Figure("500/s, server CPU", steady_cpu_s / steadily * 1e6, "us/request"),
        Figure("500/s, p50", steady["p50_ms"], "ms"),
        Figure("500/s, p99", steady["p99_ms"], "ms"),
        Figure("early", burst["early"] + steady["early"], "tasks", at_most(0)),
        Figure("twice", twice, "tasks", at_most(0)),
    ]


async def _fired(
    bench: Bench, server: Server, loader: Loader, hooks: Child, count: int, span_ms: int
) -> tuple[dict[str, Any], float]:
    """(what came, processor time of the server from just before the first instant)."""
    span = Span(now_ms() + bench.lead_ms(count), span_ms)
    await loader.schedule(QUEUE, count, span)
    await asyncio.sleep(max(0, span.from_ms - now_ms() - 50) / 1e3)
    cpu_s = server.cpu_s()
    await hooks.ask("came", count=count, patience_s=PATIENCE_S)
    cpu_s = server.cpu_s() - cpu_s
    got = await hooks.ask("collect", count=count, patience_s=PATIENCE_S)
    none_lost("delivered", count, got["distinct"])
    return got, cpu_s


def _flags(folder: Path, url: str) -> list[str]:
    (folder / "hooks.secret").write_text(f"whsec_{base64.b64encode(bytes(range(32))).decode()}\n")
    target = f'[{QUEUE}]\nurl = "{url}"\nsecret_file = "{folder / "hooks.secret"}"\nin_flight = {IN_FLIGHT}\n'
    (folder / "webhooks.toml").write_text(target)
    given = {"targets_file": folder / "webhooks.toml", "hosts": "127.0.0.1", "insecure_hosts": "127.0.0.1"}
    given["private_networks"] = "127.0.0.1/32"
    return [word for name, value in given.items() for word in ("--set", f"webhooks.{name}={value}")]
