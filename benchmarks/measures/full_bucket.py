"""A full bucket: 3.5 million tasks of 200 bytes within five minutes, loaded ahead by a fresh server, fired, sealed.

The server is started anew before its bucket comes near, so that its peak of memory is the load's and not that of
storing. The load counts from the last look that found nobody holding the bucket. Lateness is that of all 3.5 million
over the five minutes, 11,600 a second, with the settle records and marks that are written meanwhile.

Nothing of the bucket is due while it is loaded, nor while it is sealed: once it is over and all is settled it is closed
for good, all its keys are counted, it is said to be finished, and what was known of it leaves the memory. What both
cost others is told by another queue with 500 a second, of which those count that were due meanwhile. They were stored
before the restart, and none of them in the full bucket; 20,000 are in memory when it is loaded, which is 5 MiB of that
peak.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.bench import MINUTE_MS, SECOND_MS, SMALL, Bench, Loader, Receiver, Span, now_ms
from benchmarks.figures import BenchmarkFailed, Figure, TooBusy, at_most
from benchmarks.processes import Server

TITLE = "3.5 million in one bucket"
TASKS = 3_500_000
BUCKET_MS = 5 * MINUTE_MS
# A bucket is loaded so long before it begins, or up to a second later: that often is looked what is near.
AHEAD_MS = 90 * SECOND_MS
RESTART_MS = 10 * SECOND_MS
CALM_PER_S = 500
# The other queue's tasks begin so long before the load, and are enough for one of seven times the floor.
BEFORE_MS, LOAD_MS = 5 * SECOND_MS, 40 * SECOND_MS
# Flag, count and last mark are a second each, and 3.5 million keys are to be counted.
SEAL_MS = 30 * SECOND_MS
# When it is said to be finished, what was known of it is still in memory.
LET_GO_MS = SECOND_MS
SMALL_IN_MS = 6 * SECOND_MS
MIB = 1 << 20
LOOK_EVERY_S = 0.02
PATIENCE_S = 900.0
LONG = True
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """Where tasks are due: the full bucket, and the other queue's beside its load and its seal."""

    full: Span
    load: Span
    seal: Span


@dataclass(frozen=True, slots=True)
class Part:
    """From when until when something took place."""

    from_ms: float
    until_ms: float


async def run(bench: Bench) -> list[Figure]:
    count, server = bench.count(TASKS), await bench.server()
    loader = await bench.loader(server)
    plan = _plan(bench, count)
    calm_count = await _store(loader, count, plan)
    await server.stop()
    server = await bench.again(server)
    full = await bench.receiver(server, loader, "full", batches=True, compact=True)
    calm = await bench.receiver(server, loader, "calm", batches=False, compact=True)
    if now_ms() > plan.load.from_ms:
        raise TooBusy("The workers were there only when the other queue's first task was due.")
    load = await _load(loader, count, plan)
    peak_bytes = server.rss_peak_bytes()
    got, calm_got, share = await asyncio.gather(
        full.collect(count, compact=True, patience_s=PATIENCE_S),
        calm.collect(calm_count, compact=True, patience_s=PATIENCE_S),
        _share_of_core(server, plan.full),
    )
    # Of a small run nothing is far enough from now to be loaded or sealed while somebody looks.
    is_small = bench.scale < SMALL
    seal = _whole(plan.seal) if is_small else await _sealed(loader, plan)
    beside_load = await _beside("load", calm, _whole(plan.load) if is_small else load)
    beside_seal = await _beside("seal", calm, seal)
    memory = _memory(peak_bytes, server)
    for receiver in (full, calm):
        await receiver.stop()
    await bench.stack.aclose()
    twice = got["received"] + calm_got["received"] - count - calm_count
    return [
        Figure("load", (load.until_ms - load.from_ms) / 1e3, "s", at_most(5), headline=True),
        *memory,
        *beside_load,
        Figure("share of one core in the server while it fires", 100 * share, "%", at_most(25), headline=True),
        *_lateness(got),
        *([] if is_small else [Figure("sealed after", (seal.until_ms - LET_GO_MS - seal.from_ms) / 1e3, "s")]),
        *beside_seal,
        Figure("early", got["early"], "tasks", at_most(0)),
        Figure("other queue, early", calm_got["early"], "tasks", at_most(0)),
        Figure("twice", twice, "tasks", at_most(0)),
    ]


def _plan(bench: Bench, count: int) -> Plan:
    """The next whole one that is not near yet when all are stored. In a small run, a few seconds of what is near."""
    if bench.scale < SMALL:
        begin_ms = now_ms() + bench.slack * SMALL_IN_MS
        return Plan(*(Span(begin_ms + n * SECOND_MS, SECOND_MS) for n in (0, -1, 1)))
    all_of_them = count + CALM_PER_S * (LOAD_MS + SEAL_MS) // SECOND_MS
    first_ms = now_ms() + bench.lead_ms(all_of_them) + RESTART_MS + BEFORE_MS + AHEAD_MS
    begin_ms = -(-first_ms // BUCKET_MS) * BUCKET_MS
    load = Span(begin_ms - AHEAD_MS - BEFORE_MS, LOAD_MS)
    return Plan(Span(begin_ms, BUCKET_MS), load, Span(begin_ms + BUCKET_MS, SEAL_MS))


async def _store(loader: Loader, count: int, plan: Plan) -> int:
    """How many the other queue got."""
    await loader.schedule("full", count, plan.full)
    stored = 0
    for span in (plan.load, plan.seal):
        beside = CALM_PER_S * span.span_ms // SECOND_MS
        await loader.schedule("calm", beside, span, first=stored)
        stored += beside
    return stored


async def _load(loader: Loader, count: int, plan: Plan) -> Part:
    """From the last look that found nobody holding the bucket, before anything of it is read, to the one that found all
    of it in memory: no shorter than it was."""
    begun_ms, end_s = None, time.monotonic() + PATIENCE_S
    while True:
        asked_ms = time.time() * 1e3
        seen = await loader.bucket(plan.full.from_ms)
        if not seen["held"]:
            begun_ms = asked_ms
        elif seen["waiting"] >= count:
            break
        if now_ms() > plan.full.from_ms:
            raise TooBusy(f"{seen['waiting']:,} of {count:,} tasks were loaded when the first was due.")
        if time.monotonic() > end_s:
            raise BenchmarkFailed(f"{seen['waiting']:,} of {count:,} tasks were loaded after {PATIENCE_S:.0f} s.")
        await asyncio.sleep(LOOK_EVERY_S)
    return _seen_load(plan, begun_ms, time.time() * 1e3)


def _seen_load(plan: Plan, begun_ms: float | None, ended_ms: float) -> Part:
    """All of it must have been seen, and with tasks of the other queue beside it."""
    if plan.full.span_ms < BUCKET_MS:
        return Part(begun_ms or ended_ms, ended_ms)
    if begun_ms is None:
        raise TooBusy("The bucket was being loaded before anybody looked.")
    if not plan.load.from_ms <= begun_ms <= ended_ms <= _whole(plan.load).until_ms:
        raise TooBusy(
            f"The load ended {(ended_ms - plan.load.from_ms) / 1e3:.0f} s after the other queue's first task."
        )
    return Part(begun_ms, ended_ms)


async def _share_of_core(server: Server, span: Span) -> float:
    """From the first instant of the span to its last: neither load nor seal are in it."""
    await _until(span.from_ms)
    begun_s, cpu_s = time.monotonic(), server.cpu_s()
    await _until(span.from_ms + span.span_ms)
    return (server.cpu_s() - cpu_s) / (time.monotonic() - begun_s)


async def _until(at_ms: int) -> None:
    await asyncio.sleep(max(0, at_ms - now_ms()) / 1e3)


async def _sealed(loader: Loader, plan: Plan) -> Part:
    """From the end of the bucket until it is finished and let go. It is asked when that should be long over, for the
    answer is made of the records of all its endings."""
    ends_ms, end_s = plan.seal.from_ms, time.monotonic() + PATIENCE_S
    while not (finished_ms := (await loader.bucket(plan.full.from_ms))["finished_ms"]):
        if time.monotonic() > end_s:
            raise BenchmarkFailed(f"The bucket was not finished {PATIENCE_S:.0f} s after its end.")
        await asyncio.sleep(1)
    if finished_ms + LET_GO_MS > _whole(plan.seal).until_ms:
        raise BenchmarkFailed(f"The bucket was finished {(finished_ms - ends_ms) / 1e3:.0f} s after its end.")
    return Part(ends_ms, finished_ms + LET_GO_MS)


def _whole(span: Span) -> Part:
    return Part(span.from_ms, span.from_ms + span.span_ms)


async def _beside(what: str, calm: Receiver, part: Part) -> list[Figure]:
    got = await calm.due_between(part.from_ms, part.until_ms)
    return [
        Figure(f"other queue beside the {what}, p50", got["p50_ms"], "ms"),
        Figure(f"other queue beside the {what}, p99", got["p99_ms"], "ms", at_most(5), headline=True),
        Figure(f"other queue beside the {what}, max", got["max_ms"], "ms"),
    ]


def _memory(peak_bytes: int, server: Server) -> list[Figure]:
    """920 MB, in MiB."""
    floor = at_most(920 * 1e6 / MIB)
    return [
        Figure("RSS peak of the load", peak_bytes / MIB, "MiB", floor, headline=True),
        Figure("RSS peak of all", server.rss_peak_bytes() / MIB, "MiB", floor),
    ]


def _lateness(got: Answer) -> list[Figure]:
    return [
        Figure("lateness, p50", got["p50_ms"], "ms"),
        Figure("lateness, p99", got["p99_ms"], "ms", at_most(5), headline=True),
    ]
