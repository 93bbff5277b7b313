"""The page while ten million tasks of a thousand queues are pending, over thirty days, in a real Chromium.

Each place is opened in a tab of its own, three times, six seconds apart. First paint is what the browser says, from the
request of the page on. Server CPU is the processor time of the server from the request until all calls of the place are
answered, less what it takes meanwhile without a page. Whoever looks at a place for longer asks for the same again,
every two to ten seconds. The first time stands apart: something may be read that is kept afterwards.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median
from typing import NamedTuple

from playwright.async_api import Browser, async_playwright

from benchmarks.bench import DAY_MS, Bench, Span, now_ms
from benchmarks.figures import BenchmarkFailed, Figure, at_most
from benchmarks.processes import Server
from timerd.demo.processes import free_port

TITLE = "The page over ten million tasks"
TASKS, QUEUES, AT_ONCE = 10_000_000, 1_000, 500_000
LEAST_QUEUES = 20
FROM_MS, SPAN_MS = 600_000, 30 * DAY_MS
PLACES = {
    "overview": "",
    "queues": "queues",
    "a queue": "queue/q7",
    "tasks": "tasks",
    "dead letters": "dead",
    "schedules": "schedules",
    "workers": "workers",
    "cluster": "cluster",
}
TIMES = 3
APART_S = 6.0
IDLE_S = 5.0
PAINT_FLOOR, CPU_FLOOR = at_most(300), at_most(20)
LONG = True
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"


class Opened(NamedTuple):
    paint_ms: float
    cpu_ms: float


async def run(bench: Bench) -> list[Figure]:
    port = free_port()
    server = await bench.server("--http", f"127.0.0.1:{port}")
    await _fill(bench, server)
    idle_share = await _idle_share(bench, server)
    figures: list[Figure] = []
    async with _chromium() as browser:
        await _open(browser, server, f"http://127.0.0.1:{port}/ui/", idle_share)
        for name, place in PLACES.items():
            url = f"http://127.0.0.1:{port}/ui/#/{place}"
            first = await _open(browser, server, url, idle_share)
            again = []
            for _ in range(TIMES):
                await asyncio.sleep(bench.seconds(APART_S))
                again.append(await _open(browser, server, url, idle_share))
            figures += [
                Figure(f"{name}, first paint", median(each.paint_ms for each in again), "ms", PAINT_FLOOR),
                Figure(
                    f"{name}, server CPU", median(each.cpu_ms for each in again), "ms", CPU_FLOOR, headline=not place
                ),
                Figure(f"{name}, server CPU, the first time", first.cpu_ms, "ms"),
            ]
    await bench.stack.aclose()
    return figures


async def _fill(bench: Bench, server: Server) -> None:
    loader = await bench.loader(server)
    left, queues = bench.count(TASKS), max(LEAST_QUEUES, round(QUEUES * min(1.0, bench.scale * 10)))
    while left:
        count = min(left, AT_ONCE)
        await loader.spread(queues, count, Span(now_ms() + FROM_MS, SPAN_MS))
        left -= count
    # Estimates are written every 10 s, and the log is brought into the file.
    await asyncio.sleep(bench.seconds(15.0, least=0.3))


async def _idle_share(bench: Bench, server: Server) -> float:
    cpu_s, seconds = server.cpu_s(), bench.seconds(IDLE_S)
    await asyncio.sleep(seconds)
    return (server.cpu_s() - cpu_s) / seconds


@asynccontextmanager
async def _chromium() -> AsyncIterator[Browser]:
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        raise BenchmarkFailed("There is no Chromium here: apt-get install chromium.")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()


async def _open(browser: Browser, server: Server, url: str, idle_share: float) -> Opened:
    """In a tab of its own, with nothing kept."""
    loop = asyncio.get_running_loop()
    context = await browser.new_context()
    page = await context.new_page()
    cpu_s, began_s = server.cpu_s(), loop.time()
    await page.goto(url)
    await page.locator("main h1").wait_for()
    await page.wait_for_load_state("networkidle")
    cpu_ms = (server.cpu_s() - cpu_s - idle_share * (loop.time() - began_s)) * 1e3
    paint_ms = float(await page.evaluate(_PAINT))
    await context.close()
    return Opened(paint_ms, max(0.0, cpu_ms))
