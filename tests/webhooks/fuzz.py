"""Answers that no receiver should give, to the webhooks of a real server: `make fuzz-webhooks`.

    python -m tests.webhooks.fuzz --seconds 300 --seed 1

Each task's first request is answered with nonsense, each later one with 204. So every task ends acknowledged, by as
many requests as docs/use/webhooks.md says. The server's log may hold no traceback, and the server must serve
afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.cli.served import Server
from tests.process.waiting import eventually
from tests.webhooks.babbler import Babbler, babbling
from tests.webhooks.nonsense import Ends, drawn
from tests.webhooks.receiver import secret_of
from timerd.client import Client, RetryPolicy

# Each with a target of its own, so that one that is left in peace holds up no other.
QUEUES, AT_ONCE = 64, 256
# Long enough for whoever answers at all on a busy machine: else an answer that was given counts as none.
TIMEOUT_S = 8
SOON = RetryPolicy(initial_backoff=0.1, multiplier=1, max_backoff=0.1)
# More than a target is left in peace for.
PATIENCE_S = 400
# The attempts that came, by what becomes of the first one. More may come of a failure: a pause ends with one.
MAY_COME = {
    Ends.ACKED: ([1],),
    Ends.FAILED: ([1, 2],),
    Ends.THROTTLED: ([1, 1],),
    Ends.EITHER: ([1], [1, 2]),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    print(f"seeds from {given.seed} on", flush=True)
    end_s = time.monotonic() + given.seconds

    def seeds() -> Iterator[int]:
        seed = given.seed
        while time.monotonic() < end_s:
            yield seed
            seed += 1

    with tempfile.TemporaryDirectory() as folder:
        tried, found = asyncio.run(fuzz(Path(folder), seeds()))
    print(*found, f"{tried} answers, {len(found)} findings", sep="\n")
    return 1 if found else 0


async def fuzz(folder: Path, seeds: Iterator[int]) -> tuple[int, list[str]]:
    """How many were tried, and what did not end as the page says."""
    async with babbling(drawn) as babbler:
        server = await asyncio.to_thread(Server, folder, *flags(folder, babbler.url))
        try:
            async with Client(server.address, timeout=60) as client:
                tried = await _go_through(client, babbler, seeds)
                await client.schedule("after", b"x", delay=3_600)
        finally:
            _, out, err = await asyncio.to_thread(server.stop)
    found = [
        f"{seed}: {drawn(seed).says}: attempts {came}" for seed, came in tried if came not in MAY_COME[drawn(seed).ends]
    ]
    return len(tried), found + ([out + err] if "Traceback" in out + err else [])


async def _go_through(client: Client, babbler: Babbler, seeds: Iterator[int]) -> list[tuple[int, list[int]]]:
    """The attempts of each seed. So many are under way at a time. How many tasks there are is an estimate, so what came
    says how far it is."""
    begun: list[int] = []

    async def are_ended(left: int) -> bool:
        return sum(babbler.attempts[seed] not in MAY_COME[drawn(seed).ends] for seed in begun) <= left

    for seed in seeds:
        await client.schedule(f"q{seed % QUEUES}", b"%d" % seed, delay=0, retry=SOON)
        begun.append(seed)
        if len(begun) % AT_ONCE == 0:
            await eventually(lambda: are_ended(AT_ONCE // 2), "half of them have ended", PATIENCE_S)
    with suppress(AssertionError):
        # Which have not is found below.
        await eventually(lambda: are_ended(0), "each has ended", PATIENCE_S)
    return [(seed, babbler.attempts[seed]) for seed in begun]


def flags(folder: Path, url: str) -> list[str]:
    (folder / "secret").write_text(secret_of("one") + "\n")
    target = f'url = "{url}"\nsecret_file = "{folder / "secret"}"\ntimeout_s = {TIMEOUT_S}\n'
    (folder / "webhooks.toml").write_text("\n".join(f"[q{number}]\n{target}" for number in range(QUEUES)))
    given = {"targets_file": folder / "webhooks.toml", "hosts": "127.0.0.1", "insecure_hosts": "127.0.0.1"}
    given["private_networks"] = "127.0.0.1/32"
    return [word for name, value in given.items() for word in ("--set", f"webhooks.{name}={value}")]


if __name__ == "__main__":
    sys.exit(main())
