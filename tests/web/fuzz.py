"""Requests that nobody would write by hand, at the HTTP port of a real server: `make fuzz-http`.

    python -m tests.web.fuzz --schemathesis build/fuzz/bin/schemathesis --seconds 600

They are drawn from the server's own /openapi.json, some of each operation, and then again, until the time is over. No
answer may be a 5xx or go on for ever, the log may hold no traceback, and the server must serve afterwards.

Answers that have no end are looked at beside that, each for a moment: who reads one to its end tries nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import aiohttp

from tests.cli.served import Server
from timerd.client import Client
from timerd.demo.processes import free_port
from timerd.web.routes import SHORT_ROUTES

# Of each operation in a round; there are rounds until the time is over.
EXAMPLES = 50
# A worker may be held up by a Receive, which waits for tasks that never come.
WORKERS = 4
# Each of the requests that are under way at the end may wait for this long, and the last round ends.
TIMEOUT_S, PATIENCE_S = 70, 150
ENDLESS = [route.path for route in SHORT_ROUTES if route.is_endless]
TEXTS = (
    "",
    "0",
    "1",
    "-1",
    "1e9",
    "9" * 400,
    "\0",
    "\n",
    "%",
    "q\u0301",
    "\U0001f375",
    "default",
    "x" * 5_000,
    "../..",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemathesis", type=Path, required=True)
    parser.add_argument("--seconds", type=int, default=600)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        port = f"127.0.0.1:{free_port()}"
        server = Server(Path(folder), "--http", port)
        try:
            found = asyncio.run(fuzz(given.schemathesis.resolve(), f"http://{port}", server.address, given.seconds))
        finally:
            _, out, err = server.stop()
    found += [out, err, "the server's log holds a traceback"] if "Traceback" in out + err else []
    print(*found, sep="\n")
    return 1 if found else 0


async def fuzz(schemathesis: Path, url: str, address: str, seconds: int) -> list[str]:
    """What is wrong."""
    async with aiohttp.ClientSession(url) as session:
        end_s = time.monotonic() + seconds
        wrong, code = await asyncio.gather(looked_on(session, end_s), drawn(schemathesis, url, seconds))
    async with Client(address) as client:
        await client.schedule("after", b"x", delay=3_600)
    return wrong + ([f"schemathesis ended with {code}"] if code else [])


async def drawn(schemathesis: Path, url: str, seconds: int) -> int | str:
    """Its exit code: 0 where each answer was one that a caller may get. Beside it is what it keeps: to find out all
    characters takes it longer than a short run."""
    checks = ["--phases", "fuzzing", "--checks", "not_a_server_error", "--suppress-health-check", "all"]
    limits = ["--max-examples", EXAMPLES, "--max-time", seconds, "--request-timeout", TIMEOUT_S, "--workers", WORKERS]
    left_out = [word for path in ENDLESS for word in ("--exclude-path", path)]
    command = [schemathesis, "run", f"{url}/openapi.json", *checks, *limits, *left_out]
    running = await asyncio.create_subprocess_exec(*map(str, command), cwd=schemathesis.parent)
    try:
        return await asyncio.wait_for(running.wait(), seconds + PATIENCE_S)
    except TimeoutError:
        running.kill()
        return f"no word within {PATIENCE_S} s of its time: an answer that does not end"


async def looked_on(session: aiohttp.ClientSession, end_s: float) -> list[str]:
    """Who looks on for a moment and hangs up. Returns what was answered with a 5xx."""
    chance, came = random.Random(int(end_s)), Counter[int]()
    wrong = []
    while time.monotonic() < end_s:
        query = {chance.choice(("queue", "max_per_second", "namespace", "other")): chance.choice(TEXTS) for _ in "12"}
        for path in ENDLESS:
            async with session.get(path, params=query) as reply:
                came[reply.status] += 1
                wrong += [f"{path} {json.dumps(query)}: {reply.status}"] if reply.status >= 500 else []
        await asyncio.sleep(0.05)
    print(f"answers without an end: {dict(came)} by status")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
