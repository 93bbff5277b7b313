"""Connections that nobody speaks on: a dead peer is noticed, and the pings that find it out are welcome.

The real spans are a few seconds (tests/process/test_cut_connection.py has them); here they are shorter by a factor, as
short as gRPC allows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.cable import Cable
from timerd import Client, TimerdError
from timerd.config import ServerConfig
from timerd.sdk.transport.connection import OPTIONS
from timerd.services.peers.peers import OPTIONS as PEERS
from timerd.services.transport.grpcio_door import options_of
from timerd.v1 import timer_service_pb2 as pb

FASTER = 3
# A server that minds them hangs up after the third.
PINGS = 5
Options = Sequence[tuple[str, int]]
PING_AFTER, ANSWER_WITHIN, PING_TIMEOUT = (
    "grpc.keepalive_time_ms",
    "grpc.keepalive_timeout_ms",
    "grpc.http2.ping_timeout_ms",
)
LEAST_INTERVAL = "grpc.http2.min_ping_interval_without_data_ms"
SPANS = (PING_AFTER, ANSWER_WITHIN, PING_TIMEOUT, LEAST_INTERVAL)
SERVER: Options = options_of(ServerConfig())


def faster(options: Options) -> list[tuple[str, int]]:
    return [(name, value // FASTER if name in SPANS else value) for name, value in options]


def test_the_client_pings_less_often_than_the_server_allows() -> None:
    client, server = dict(OPTIONS), dict(SERVER)
    assert client[PING_AFTER] >= 2 * server[LEAST_INTERVAL]
    assert client["grpc.keepalive_permit_without_calls"] == server["grpc.keepalive_permit_without_calls"] == 1
    assert client["grpc.http2.max_pings_without_data"] == server["grpc.http2.max_pings_without_data"] == 0


@pytest.mark.parametrize("options", [OPTIONS, SERVER, PEERS], ids=["client", "server", "peers"])
def test_each_side_notices_within_ten_seconds(options: Options) -> None:
    """Without `ping_timeout_ms` gRPC waits a minute, whatever `keepalive_timeout_ms` says."""
    spans = dict(options)
    assert spans[PING_TIMEOUT] == spans[ANSWER_WITHIN]
    assert spans[PING_AFTER] + spans[ANSWER_WITHIN] <= 10_000


def test_a_worker_notices_and_is_back_before_its_server_gives_it_up() -> None:
    """So that the server hears from it what did not reach it (docs/understand/guarantees.md, G5)."""
    client, server = dict(OPTIONS), dict(SERVER)
    assert client[PING_AFTER] + client[ANSWER_WITHIN] < server[ANSWER_WITHIN]


@asynccontextmanager
async def silent_server(options: Options) -> AsyncIterator[str]:
    """It accepts a session and never says a word more."""

    async def session(_: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await context.write(pb.SessionResponse(window=pb.SessionWindow()).SerializeToString())
        await asyncio.Event().wait()

    server = grpc.aio.server(options=options)
    methods: dict[str, Any] = {"Session": grpc.stream_stream_rpc_method_handler(session)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("timerd.v1.TimerService", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def end_of_a_quiet_stream(address: str, options: Options) -> str:
    """How a stream ends on which nobody speaks while the client pings; empty: it does not."""
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        stream: Any = channel.stream_stream("/timerd.v1.TimerService/Session")()
        assert await stream.read() is not grpc.aio.EOF
        try:
            async with asyncio.timeout(PINGS * dict(options)[PING_AFTER] / 1000):
                await stream.read()
        except TimeoutError:
            return ""
        except grpc.aio.AioRpcError as ended:
            return str(ended.details())
        return "the end"


async def test_our_server_takes_our_pings_where_one_left_at_its_defaults_hangs_up() -> None:
    async with silent_server(faster(SERVER)) as ours, silent_server(()) as default:
        ends = await asyncio.gather(
            end_of_a_quiet_stream(ours, faster(OPTIONS)), end_of_a_quiet_stream(default, faster(OPTIONS))
        )
    assert ends[0] == ""
    assert "too_many_pings" in ends[1].lower().replace(" ", "_")


async def test_a_peer_that_vanished_is_noticed_long_before_any_timeout() -> None:
    """The call's own timeout is a minute; the stream is found dead by its pings, and the next connection is tried."""
    async with silent_server(faster(SERVER)) as address:
        cable = Cable(address)
        async with Client(await cable.lay(), timeout=60, channel_options=faster(OPTIONS)) as client:
            waiting = asyncio.create_task(client.schedule("q", b"x", delay=1))
            async with asyncio.timeout(20):
                await cable.connections.get()
                cable.cut()
                await cable.connections.get()
            assert not waiting.done()
        with pytest.raises(TimerdError, match="client was closed"):
            await waiting
        await cable.remove()
