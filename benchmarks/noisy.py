"""A noisy customer beside 999 others: how long these wait, with and without limit keys.

    python -m benchmarks.noisy [--noisy 100000] [--seconds 60] [--plot docs/plots/noisy-customer.png]

One customer of 1,000 has all of its tasks due at once. Each of the others has one, spread over the next minute. A
worker takes ten at a time, a tenth of a second each, so the noisy customer alone would keep it busy for a quarter of an
hour. A real server and a real worker, on a clock that is turned: what is said of time does not depend on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from timerd.client import Item, KeyRules
from timerd.testing import Server
from timerd.worker import Delivery

CUSTOMERS, SLOTS, TASK_S = 1_000, 10, 0.1
STEP_S = 1.0
QUEUE = "mail"
AT_ONCE = 10_000


async def waits(noisy: int, seconds: int, *, keyed: bool) -> list[tuple[float, float, bool]]:
    """Of each of the others: when it was due, how long it has waited, and whether it has been started."""
    with tempfile.TemporaryDirectory() as folder:
        async with Server(data=Path(folder)) as server:
            client, started = server.client(), dict[str, float]()
            await client.queues.put(QUEUE, keys=KeyRules(share=1))
            begin = server.now + timedelta(seconds=30)
            for first in range(0, noisy, AT_ONCE):
                items = [Item(b"noisy", at=begin) for _ in range(min(AT_ONCE, noisy - first))]
                await client.schedule_many(QUEUE, items, limit_key="noisy" if keyed else "")
            dues = {f"{n}": seconds * n / CUSTOMERS for n in range(1, CUSTOMERS)}
            for name, due_s in dues.items():
                at = begin + timedelta(seconds=due_s)
                await client.schedule(QUEUE, name, at=at, limit_key=name if keyed else "")
            worker = server.worker()

            async def mail(delivery: Delivery) -> None:
                started[delivery.payload.decode()] = (server.now - begin).total_seconds()
                await server.sleep(seconds=TASK_S)

            worker.on(QUEUE, concurrency=SLOTS)(mail)
            await worker.start()
            await server.advance_to(begin)
            for _ in range(int(seconds / STEP_S) + 1):
                await server.advance(seconds=STEP_S)
            now_s = (server.now - begin).total_seconds()
            return [(due_s, started.get(name, now_s) - due_s, name in started) for name, due_s in dues.items()]


def quantile(found: list[tuple[float, float, bool]], share: float) -> float:
    return sorted(wait_s for _, wait_s, _ in found)[int(share * (len(found) - 1))]


def draw(
    keyed: list[tuple[float, float, bool]], plain: list[tuple[float, float, bool]], noisy: int, path: Path
) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for found, colour, label in ((plain, "#b9c6d3", "without limit_key"), (keyed, "#b3261e", "with limit_key")):
        missed = sum(not is_started for _, _, is_started in found)
        more = f", {missed} of {len(found)} not started when the plot ends" if missed else ""
        axes.plot([each[0] for each in found], [each[1] for each in found], ".", ms=3, color=colour, label=label + more)
    axes.set(
        xlabel="the task is due so many seconds after those of the noisy customer",
        ylabel="it waits, s (so far, where it has not started)",
        yscale="symlog",
        title=f"999 customers with one task each beside one with {noisy:,}",
    )
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noisy", description=__doc__)
    parser.add_argument("--noisy", type=int, default=100_000, help="tasks of the noisy customer")
    parser.add_argument("--seconds", type=int, default=60, help="so long the others come")
    parser.add_argument("--plot", type=Path, help="where the picture goes")
    given = parser.parse_args()
    found: dict[str, Any] = {}
    for name in ("with limit_key", "without"):
        waited = found[name] = await waits(given.noisy, given.seconds, keyed=name != "without")
        figures = {f"p{round(100 * share)}_s": round(quantile(waited, share), 3) for share in (0.5, 0.99, 1.0)}
        started = sum(is_started for _, _, is_started in waited)
        print(json.dumps({"row": name, "others": len(waited), "started": started, **figures}), flush=True)
    if given.plot is not None:
        draw(found["with limit_key"], found["without"], given.noisy, given.plot)


if __name__ == "__main__":
    asyncio.run(main())
