"""Instances that listen with TLS call each other with it: each shows its certificate, and looks at the other's."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import grpc.aio
import pytest

from tests.certificates import Authority
from tests.cluster.peer_rig import bucket_on, until
from timerd.config import TlsConfig
from timerd.core.protocol.procedures import AskToEnd
from timerd.demo.processes import free_port
from timerd.model.errors import StartupError
from timerd.model.identity import RowKey
from timerd.model.settle import Outcome
from timerd.services.peers.peer_wire import Holder
from timerd.services.peers.peers import Peers, Silent
from timerd.services.transport.tls import TlsFiles, server_credentials
from timerd.testing import Cluster
from timerd.testing.async_server import CONFIG
from timerd.testing.contracts.build import digest

PATIENCE_S = 30


def files(authority: Authority, name: str) -> TlsConfig:
    """The certificate names the instances, not their addresses."""
    mine = authority.sign(name, "DNS:instances.timerd")
    return TlsConfig(
        certificate_file=mine.certificate,
        key_file=mine.key,
        client_ca_file=authority.certificate,
        peer_name="instances.timerd",
    )


async def asks(peers: Peers, address: str) -> None:
    partition = bucket_on("b")
    ask = AskToEnd(partition, RowKey(partition.bucket_ms, digest("m"), 0), Outcome.CANCELLED, b"request")
    assert await peers.ask_to_end(Holder("b", address, 0), partition, [ask]) is None


async def test_instances_with_certificates_of_one_authority_answer_each_other(tmp_path: Path) -> None:
    tls = files(Authority(tmp_path), "instance")
    async with Cluster("a", "b", config=replace(CONFIG, tls=tls)) as cluster:
        peering = cluster.instances["a"].node.peering
        assert peering is not None
        await asks(peering.peers, cluster.instances["b"].node.address)


async def test_without_a_certificate_of_theirs_nobody_is_heard(tmp_path: Path) -> None:
    tls = files(Authority(tmp_path), "instance")
    (tmp_path / "elsewhere").mkdir()
    async with Cluster("a", "b", config=replace(CONFIG, tls=tls)) as cluster:
        address = cluster.instances["b"].node.address
        for other in (TlsConfig(), files(Authority(tmp_path / "elsewhere"), "stranger")):
            stranger = Peers("token", other)
            with pytest.raises(Silent):
                await asks(stranger, address)
            await stranger.close()


async def test_a_connection_that_breaks_comes_back_with_the_renewed_certificate(tmp_path: Path) -> None:
    """The channel is from before the renewal, and the other side takes only what is from after it."""
    tls = files(Authority(tmp_path, "first"), "instance")
    address = f"127.0.0.1:{free_port()}"
    peers = Peers("token", tls)
    before = await listening(address, tls)
    await asyncio.wait_for(peers.channel(address).channel_ready(), PATIENCE_S)
    kept = peers.channel(address)
    (tmp_path / "renewed").mkdir()
    renew(tls, files(Authority(tmp_path / "renewed", "second"), "instance"))
    assert peers.channel(address) is kept, "what is open stays"
    await before.stop(None)
    after = await listening(address, tls)
    await until(lambda: peers.channel(address) is not kept)
    await asyncio.wait_for(peers.channel(address).channel_ready(), PATIENCE_S)
    await peers.close()
    await after.stop(None)


async def listening(address: str, tls: TlsConfig) -> grpc.aio.Server:
    server = grpc.aio.server()
    server.add_secure_port(address, server_credentials(TlsFiles(tls)))
    await server.start()
    return server


def renew(old: TlsConfig, new: TlsConfig) -> None:
    for name in ("certificate_file", "key_file", "client_ca_file"):
        os.replace(getattr(new, name), getattr(old, name))


async def test_a_spoilt_certificate_leaves_the_old_one_in_force(tmp_path: Path) -> None:
    tls = files(Authority(tmp_path), "instance")
    peers = Peers("token", tls)
    assert tls.certificate_file is not None
    tls.certificate_file.write_text("spoilt")
    assert isinstance(peers.channel("127.0.0.1:1"), grpc.aio.Channel)
    await peers.close()
    with pytest.raises(StartupError, match="PEM"):
        Peers("token", tls)
