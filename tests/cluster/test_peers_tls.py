"""Instances that listen with TLS call each other with it: each shows its certificate, and looks at the other's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import grpc.aio
import pytest

from tests.certificates import Authority
from tests.cluster.peer_rig import bucket_on
from timerd.config import TlsConfig
from timerd.core.procedures import AskToEnd
from timerd.model.errors import StartupError
from timerd.model.identity import RowKey
from timerd.model.settle import Outcome
from timerd.services.peer_wire import Holder
from timerd.services.peers import Peers, Silent
from timerd.testing import Cluster
from timerd.testing.contracts.build import digest
from timerd.testing.server import CONFIG


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


async def test_a_renewed_certificate_is_used_and_a_spoilt_one_is_not(tmp_path: Path) -> None:
    tls = files(Authority(tmp_path), "instance")
    peers = Peers("token", tls)
    assert tls.certificate_file is not None
    tls.certificate_file.write_text("spoilt")
    assert isinstance(peers.channel("127.0.0.1:1"), grpc.aio.Channel)
    await peers.close()
    with pytest.raises(StartupError, match="PEM"):
        Peers("token", tls)
