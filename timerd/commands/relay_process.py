"""A relay of an outbox beside the server: a process of its own, which the server starts, watches and ends.

It is a caller like others, so it is none of the server's business what it waits for, and it takes no turn of the loop
that fires. Where the server is killed it ends too, for its input does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import suppress

from timerd.config import OutboxConfig

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
# Who has run for so long did not fail at its start.
STEADY_S = 10.0
# It is stopped first, while the server answers, so what it has begun is done in a moment. Who takes longer waits for
# something else, and is killed, which costs nothing but a batch that is sent again.
STOP_S = 3.0
# Of an address to listen on that none can connect to.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
_log = logging.getLogger("timerd.outbox")


class RelayProcess:
    """`address`: where the server listens. The relay is told of its database by the environment, which others cannot
    read; and who it is, and whom it trusts, as every client is (TIMERD_TOKEN_FILE, TIMERD_TLS_CA and so on)."""

    def __init__(self, config: OutboxConfig, address: str) -> None:
        self._server = config.server or connectable(address)
        self._environment = {**os.environ, "TIMERD_OUTBOX_DATABASE": config.relay_database.get_secret_value()}
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """What it sends is waited for."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _watch(self) -> None:
        loop, pause_s = asyncio.get_running_loop(), FIRST_PAUSE_S
        while True:
            began_s = loop.time()
            self._process = await self._begin()
            code = await self._process.wait()
            if loop.time() - began_s >= STEADY_S:
                pause_s = FIRST_PAUSE_S
            _log.warning("the relay of the outbox has ended with %d and is started again in %g s", code, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, pause_s * 2)

    async def _begin(self) -> asyncio.subprocess.Process:
        command = [sys.executable, "-m", "timerd.cli", "outbox", "run", "--server", self._server, "--until-eof"]
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            env=self._environment,
            # A Ctrl-C is for the server, which then ends the relay.
            start_new_session=True,
        )


def connectable(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{_LOOPBACK.get(host, host)}:{port}"
