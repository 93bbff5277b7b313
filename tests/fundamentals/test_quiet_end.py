"""A test server that ends leaves no trace on stderr, whatever was under way."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import grpc
import grpc.aio
import pytest

from timerd.client import TimerdError
from timerd.services.transport.streams import Unfinished
from timerd.testing import Server

STORY = """
import asyncio, logging
from timerd.testing import Server
logging.basicConfig(level=logging.WARNING)


async def story():
    async with Server() as server:
        client, worker = server.client(), server.worker()

        @worker.on("q")
        async def handle(delivery):
            await asyncio.Event().wait()

        await worker.start()
        await client.schedule("q", b"x", delay=0)
        stream = client._channel.stream_stream("/timerd.v1.TimerService/Session")()
        await stream.read()
        asyncio.gather(client.get(key="none"), client.schedule("q", b"y", delay=1), return_exceptions=True)


for _ in range(20):
    asyncio.run(story())
"""


def test_nothing_is_said_at_the_end_of_a_server() -> None:
    ended = subprocess.run([sys.executable, "-c", STORY], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


async def test_calls_that_the_stop_cut_short_are_waited_for() -> None:
    """Such a call still has something to do; a loop that is closed meanwhile would complain."""
    unfinished, wound_up = Unfinished(), list[str]()

    async def hold(_: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await context.write(b"begun")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            wound_up.append("yes")

    server = grpc.aio.server(interceptors=[unfinished])
    methods: dict[str, Any] = {"Hold": grpc.stream_stream_rpc_method_handler(hold)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stream: Any = channel.stream_stream("/test/Hold")()
        assert await stream.read() == b"begun"
        await server.stop(None)
        assert wound_up == []
        await unfinished.wound_up(20)
    assert wound_up == ["yes"]


async def test_a_call_that_the_end_of_its_client_cuts_short_says_so(server: Server) -> None:
    """It was not cancelled by whoever waits for it."""
    client = server.client()
    await client.count()
    waiting = asyncio.create_task(client.get(key="none"))
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(TimerdError, match="The client was closed before the answer came"):
        await waiting
