"""Recovery: 50,000 tasks in flight when a process is killed without notice, and started again at once.

Four deaths: the server's in the middle of a burst, and with all tasks in the hands of a worker, which lives in both;
the worker's with all in its hands, while another worker waits; and that of both together. The kill comes when so many
are in flight, not at an instant, and it is verified that they were. Some more were done before, and their acks
confirmed.

Counted is the time from the kill until the last task has come, or where a worker still has them until its acks of all
are confirmed. Beside it stands how many came again (were in a handler before) and how many may: those whose ack had
not been confirmed to the worker. An ack is confirmed when the commit that has it is durable, so the last commit permits
no more of them. None may come again whose ack was confirmed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from benchmarks.bench import PATIENCE_S, Bench, Loader, Span, none_lost, now_ms
from benchmarks.figures import BenchmarkFailed, Figure, at_most
from benchmarks.processes import Child, Server

TITLE = "Recovery with 50,000 in flight"
TASKS = 50_000
# In a burst the server is killed at the first confirmation after so many were received, or at last when twice as many
# were. There are so many more than are to be in flight: who was not received has no confirmed ack.
BURST_BEFORE = 10_000
# Done, and their acks confirmed, before the others come into hand.
DONE_BEFORE = 5_000
# At most that many in a message to a handler. In a small run the burst has as many messages.
BATCH = 1_000
MESSAGES = 60
# After the last task: what a worker had may come again when the second is over in which it may come back.
QUIET_S = 1.5
FLOOR = at_most(2.0)


async def run(bench: Bench) -> list[Figure]:
    deaths = (_server_dies_in_burst, _server_dies, _worker_dies, _both_die)
    return [figure for dies in deaths for figure in await dies(bench)]


@dataclass(frozen=True, slots=True)
class Again:
    """Tasks that came again: how many did, how many might, and how many after their ack was confirmed."""

    came: int
    permitted: int
    after_confirmed: int

    def figures(self, name: str) -> list[Figure]:
        beyond = max(self.after_confirmed, self.came - self.permitted)
        return [
            Figure(f"{name}, came again", self.came, "tasks"),
            Figure(f"{name}, permitted to come again", self.permitted, "tasks"),
            Figure(f"{name}, beyond what is permitted", beyond, "tasks", at_most(0)),
        ]


async def _witness(bench: Bench, loader: Loader, verb: str, **given: Any) -> Child:  # noqa: ANN401 - as the verb takes it
    """Returns when the server knows the worker."""
    before = (await loader.info())["workers"]
    child = await Child.start("worker", "-m", "benchmarks.witness", log=bench.folder / "worker.log")
    bench.stack.push_async_callback(child.stop)
    await child.ask("ready")
    await child.ask(verb, **given)
    await loader.wait_for("the worker to connect", lambda info: info["workers"] > before)
    return child


async def _server_dies_in_burst(bench: Bench) -> list[Figure]:
    name = "server killed in a burst"
    server = await bench.server()
    loader = await bench.loader(server)
    count, before = bench.count(TASKS), bench.count(BURST_BEFORE)
    total = count + 2 * before
    size = min(BATCH, total // MESSAGES)
    worker = await _witness(bench, loader, "in_batches", target=server.address, queue="burst", size=size)
    await worker.ask("arm", pid=server.pid, after=before, latest=total - count)
    await loader.schedule("burst", total, Span(now_ms() + bench.lead_ms(total), 1))
    struck = await worker.ask("struck", patience_s=PATIENCE_S)
    await server.kill()
    in_flight(count, total - struck.get("confirmed", total))
    await bench.again(server)
    got = await _collected(bench, worker, total, since_ms=struck["at_ms"])
    none_lost("delivered", total, got["distinct"])
    again = await _again_here(worker, got)
    await bench.stack.aclose()
    confirmed = Figure(f"{name}, acks confirmed before", struck["confirmed"], "tasks")
    return [_all_have_come(name, got), confirmed, *again.figures(name)]


def in_flight(wanted: int, found: int) -> None:
    """With fewer it is another measure."""
    if found < wanted:
        raise BenchmarkFailed(f"{wanted:,} tasks were to be in flight at the kill, {found:,} were.")


async def _collected(bench: Bench, worker: Child, count: int, **given: float) -> dict[str, Any]:
    return await worker.ask(
        "collect", count=count, patience_s=PATIENCE_S, quiet_s=bench.seconds(QUIET_S, QUIET_S), **given
    )


async def _again_here(worker: Child, got: dict[str, Any]) -> Again:
    """To the worker that had them and lives. What its next stream began with is what had no confirmed ack."""
    told = await worker.ask("told")
    return Again(got["received"] - got["distinct"], told["resumed"][1], told["after_confirmed"])


def _all_have_come(name: str, got: dict[str, Any]) -> Figure:
    """Until the last of all tasks had come for the first time."""
    more = {"timeline": got["timeline"], "label": name}
    return Figure(
        f"{name}, all have come", max(0.0, got["timeline"][-1][0]) / 1e3, "s", FLOOR, headline=True, more=more
    )


@dataclass(frozen=True, slots=True)
class InHand:
    """A worker that has `count` of them and ends none. So many others, with the first numbers, are `done` and their
    acks confirmed."""

    server: Server
    loader: Loader
    worker: Child
    count: int
    done: int

    async def verify(self) -> None:
        """By what the server says as well as by what the worker does."""
        told = await self.worker.ask("told")
        in_flight(self.count, min(told["delivered"] - told["confirmed"], (await self.loader.info())["in_flight"]))


async def _in_hand(bench: Bench, queue: str) -> InHand:
    server = await bench.server()
    loader = await bench.loader(server)
    count, done = bench.count(TASKS), bench.count(DONE_BEFORE)
    worker = await _witness(bench, loader, "one_by_one", target=server.address, queue=queue, at_once=count)
    await worker.ask("let_go")
    await loader.schedule(queue, done, Span(now_ms() + bench.lead_ms(done), 1))
    confirmed = await worker.ask("confirmed", count=done, patience_s=PATIENCE_S)
    none_lost("confirmed", done, confirmed["confirmed"])
    await worker.ask("hold")
    await loader.schedule(queue, count, Span(now_ms() + bench.lead_ms(count), 1), first=done)
    await worker.ask("came", count=done + count, patience_s=PATIENCE_S)
    hand = InHand(server, loader, worker, count, done)
    await hand.verify()
    return hand


async def _server_dies(bench: Bench) -> list[Figure]:
    """Its worker goes on with what it has once there is a server."""
    name = "server killed with all in a worker's hands"
    hand = await _in_hand(bench, "kept")
    killed_ms, total = now_ms(), hand.done + hand.count
    await hand.server.kill()
    await bench.again(hand.server)
    await hand.worker.ask("let_go")
    confirmed = await hand.worker.ask("confirmed", count=total, patience_s=PATIENCE_S)
    # What comes again is confirmed again.
    none_lost("confirmed", total, min(total, confirmed["confirmed"]))
    got = await _collected(bench, hand.worker, total)
    none_lost("delivered", total, got["distinct"])
    again = await _again_here(hand.worker, got)
    await bench.stack.aclose()
    seconds = (confirmed["at_ms"] - killed_ms) / 1e3
    return [Figure(f"{name}, all are confirmed", seconds, "s", FLOOR, headline=True), *again.figures(name)]


async def _worker_dies(bench: Bench) -> list[Figure]:
    hand = await _in_hand(bench, "held")
    second = await _second(bench, hand, "held")
    # The second has credit; nothing must have gone to it instead.
    await hand.verify()
    killed_ms = now_ms()
    await hand.worker.kill()
    return await _redelivered(bench, hand, second, killed_ms, "worker killed with all in hand")


async def _second(bench: Bench, hand: InHand, queue: str) -> Child:
    return await _witness(bench, hand.loader, "in_batches", target=hand.server.address, queue=queue, size=BATCH)


async def _redelivered(bench: Bench, hand: InHand, second: Child, killed_ms: int, name: str) -> list[Figure]:
    """To another worker than had them: all that come there come again."""
    got = await _collected(bench, second, hand.count, since_ms=killed_ms)
    after_confirmed = (await second.ask("told", confirmed_below=hand.done))["after_confirmed"]
    await bench.stack.aclose()
    none_lost("delivered", hand.count, got["distinct"] - after_confirmed)
    return [_all_have_come(name, got), *Again(got["received"], hand.count, after_confirmed).figures(name)]


async def _both_die(bench: Bench) -> list[Figure]:
    hand = await _in_hand(bench, "both")
    killed_ms = now_ms()
    await asyncio.gather(hand.worker.kill(), hand.server.kill())
    await bench.again(hand.server)
    second = await _second(bench, hand, "both")
    return await _redelivered(bench, hand, second, killed_ms, "both killed with all in hand")
