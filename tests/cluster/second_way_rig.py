"""Instances whose hints go a second way."""

from __future__ import annotations

from datetime import timedelta

import grpc.aio

from tests.cluster.peer_rig import Pair
from timerd.services.peers.second_way import SecondWay

SOON = timedelta(milliseconds=250)


def second_way(pair: Pair, name: str) -> SecondWay:
    peering = pair.cluster.instances[name].node.peering
    assert peering is not None
    found = peering.peers._other_way
    assert isinstance(found, SecondWay)
    return found


async def cut(pair: Pair) -> None:
    """What a calls at b's address is nobody."""
    peering = pair.cluster.instances["a"].node.peering
    assert peering is not None
    address = pair.cluster.instances["b"].node.address
    old = peering.peers.channel(address)
    peering.peers._channels[address] = grpc.aio.insecure_channel("127.0.0.1:1")
    await old.close()


async def fires_on_time(pair: Pair, *payloads: bytes) -> None:
    """The hint is faster than the sweep: 250 ms are enough."""
    at = pair.cluster.now + SOON
    for payload in payloads:
        await pair.client.schedule("q", payload, at=at)
    await pair.hinted(rows=1 + len(payloads))
    await pair.cluster.advance(seconds=2)
    assert sorted(pair.got) == sorted((payload, at) for payload in payloads)
    pair.got.clear()
