"""Requests that nobody would write by hand, at the HTTP port of a real server: `make fuzz-http`.

    python -m tests.web.fuzz --schemathesis build/fuzz/bin/schemathesis --seconds 600

They are drawn from the server's own /openapi.json. No answer may be a 5xx, the log may hold no traceback, and the
server must serve afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.cli.served import Server
from timerd.client import Client
from timerd.demo.processes import free_port

# Of each operation; the time ends it before.
MOST_EXAMPLES = 100_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemathesis", type=Path, required=True)
    parser.add_argument("--seconds", type=int, default=600)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        port = f"127.0.0.1:{free_port()}"
        server = Server(Path(folder), "--http", port)
        try:
            code = drawn(given.schemathesis.resolve(), f"http://{port}/openapi.json", given.seconds, folder)
            asyncio.run(serves(server.address))
        finally:
            _, out, err = server.stop()
    if "Traceback" in out + err:
        print(out, err, "the server's log holds a traceback", sep="\n")
        return 1
    return code


def drawn(schemathesis: Path, url: str, seconds: int, folder: str) -> int:
    """Its exit code: 0 where each answer was one that a caller may get."""
    checks = ("--phases", "fuzzing", "--checks", "not_a_server_error", "--suppress-health-check", "all")
    limits = ("--max-examples", str(MOST_EXAMPLES), "--max-time", str(seconds), "--request-timeout", "70")
    return subprocess.run([schemathesis, "run", url, *checks, *limits], check=False, cwd=folder).returncode


async def serves(address: str) -> None:
    async with Client(address) as client:
        await client.schedule("after", b"x", delay=3_600)


if __name__ == "__main__":
    sys.exit(main())
