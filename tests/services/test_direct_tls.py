"""Sockets of the SDK's own show and demand over TLS what gRPC's do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority, Pair
from timerd.client import AccessDenied, Client, SyncClient, TimerdError
from timerd.config import AuthConfig, ServerConfig, TlsConfig
from timerd.sdk.blocking_stream import BlockingStream, NoAnswer
from timerd.sdk.connection import Connection
from timerd.sdk.direct_stream import DirectStream
from timerd.testing import Server
from timerd.v1 import timer_service_pb2 as pb
from timerd.worker import Delivery, Worker

PATIENCE_S = 30.0
LATER = datetime(2030, 6, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server_pair(authority: Authority) -> Pair:
    return authority.sign("server", "DNS:localhost", "DNS:timers.example")


@pytest.fixture
async def server(authority: Authority, server_pair: Pair, tmp_path: Path) -> AsyncIterator[Server]:
    tls = TlsConfig(
        certificate_file=server_pair.certificate, key_file=server_pair.key, client_ca_file=authority.certificate
    )
    principals = tmp_path / "principals"
    principals.write_text(f"mails schedule,work sha256:{sha256(b't-mails').hexdigest()}\norders schedule cert:orders\n")
    auth = AuthConfig(principals_file=principals)
    config = ServerConfig(listen="127.0.0.1:0", synchronous="normal", tls=tls, auth=auth)
    async with Server(config=config) as running:
        yield running


def port_of(server: Server) -> str:
    return server.address.rpartition(":")[2]


async def asked(connection: Connection) -> str:
    """What a blocking caller is told, or that it is told nothing."""
    stream = BlockingStream(connection, 8.0)
    try:
        said = await asyncio.to_thread(stream.ask, pb.SessionRequest())
    except NoAnswer:
        return "nothing"
    finally:
        stream.close()
    return said.problem.reason


async def test_both_ways_show_certificate_and_token(server: Server, authority: Authority) -> None:
    mine = authority.sign("mine")
    given: dict[str, Any] = {
        "ca_file": authority.certificate,
        "cert_file": mine.certificate,
        "key_file": mine.key,
    }
    target, got, came = f"localhost:{port_of(server)}", list[bytes](), asyncio.Semaphore(0)

    def block() -> str:
        with SyncClient(target, **given, token="t-mails") as client:
            task = client.schedule("mails", b"x", at=server.now + timedelta(seconds=1))
            # Nothing went through the loop.
            assert client._client._channel is None
            return task.id

    assert await asyncio.to_thread(block)
    worker = Worker(target, **given, token="t-mails")

    @worker.on("mails")
    async def handle(delivery: Delivery) -> None:
        got.append(delivery.payload)
        came.release()

    running = asyncio.create_task(worker.run())
    async with Client(target, **given, token="t-mails") as client:
        await client.schedule("mails", b"y", at=server.now + timedelta(seconds=2))
        stream = client._session._stream
        assert isinstance(stream, DirectStream)
        assert stream._through_grpc is None
    await server.advance(seconds=5)
    # The clock does not wait for a worker that is not there yet, and its handshakes may take a while.
    async with asyncio.timeout(PATIENCE_S):
        await came.acquire()
        await came.acquire()
    await worker.stop()
    await running
    assert got == [b"x", b"y"]


async def test_a_certificate_alone_names_the_caller(server: Server, authority: Authority) -> None:
    orders, target = authority.sign("orders"), f"localhost:{port_of(server)}"

    def block() -> str:
        with SyncClient(
            target, ca_file=authority.certificate, cert_file=orders.certificate, key_file=orders.key
        ) as client:
            return client.schedule("mails", b"x", at=LATER).id

    assert await asyncio.to_thread(block)


async def test_who_may_not_is_told_why(server: Server, authority: Authority) -> None:
    strange, target = authority.sign("strange"), f"localhost:{port_of(server)}"

    def block() -> None:
        with SyncClient(
            target, ca_file=authority.certificate, cert_file=strange.certificate, key_file=strange.key, timeout=5
        ) as client:
            client.schedule("mails", b"x", at=LATER)

    with pytest.raises(AccessDenied, match="does not know this caller"):
        await asyncio.to_thread(block)


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        (lambda other: {}, "MALFORMED"),
        (lambda other: {"tls_server_name": "timers.example"}, "MALFORMED"),
        (lambda other: {"tls_server_name": "another.example"}, "nothing"),
        (lambda other: {"ca_file": other.certificate}, "nothing"),
        (lambda other: {"ca_file": None}, "nothing"),
        (lambda other: {"cert_file": None, "key_file": None}, "nothing"),
        (lambda other: {"ca_file": "/nowhere"}, "nothing"),
    ],
    ids=["good", "other name", "wrong name", "wrong authority", "public authorities", "no certificate", "no file"],
)
async def test_nothing_is_said_to_a_server_that_is_not_proved(
    server: Server,
    authority: Authority,
    tmp_path: Path,
    changes: Callable[[Authority], dict[str, str | None]],
    answer: str,
) -> None:
    mine = authority.sign("mine")
    given: dict[str, Any] = {
        "ca_file": authority.certificate,
        "cert_file": mine.certificate,
        "key_file": mine.key,
    }
    given |= changes(Authority(tmp_path, "another"))
    connection = Connection(f"localhost:{port_of(server)}", tls=True, token="t-mails", **given)
    said = await asked(connection)
    assert (said == "nothing") == (answer == "nothing")


async def test_a_token_is_read_anew_for_each_connection(server: Server, authority: Authority, tmp_path: Path) -> None:
    mine, file = authority.sign("mine"), tmp_path / "token"
    file.write_text("t-wrong")
    target = f"localhost:{port_of(server)}"

    def client() -> SyncClient:
        return SyncClient(
            target,
            ca_file=authority.certificate,
            cert_file=mine.certificate,
            key_file=mine.key,
            token_file=file,
            timeout=5,
        )

    def block() -> None:
        with client() as one:
            with pytest.raises(TimerdError):
                one.schedule("mails", b"x", at=LATER)
            file.write_text("t-mails\n")
            assert one.schedule("mails", b"x", at=LATER).id

    await asyncio.to_thread(block)
