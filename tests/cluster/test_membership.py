"""Several instances on one store: who belongs, who is dead, and that each partition has one holder."""

from __future__ import annotations

import pytest

from timerd.model.errors import StartupError
from timerd.testing import Cluster


async def test_each_instance_knows_who_lives() -> None:
    async with Cluster("a", "b", "c") as cluster:
        assert {each.member.live() for each in cluster.instances.values()} == {("a", "b", "c")}
        a, b = cluster.instances["a"], cluster.instances["b"]
        assert a.member.address_of("b") == b.node.address
        await cluster.kill("c")
        await cluster.advance(seconds=15)
        assert a.member.live() == b.member.live() == ("a", "b")
        await cluster.stop("b")
        await cluster.advance(seconds=3)
        assert a.member.live() == ("a",)


async def test_a_second_instance_of_the_same_name_is_refused() -> None:
    async with Cluster("a", "b") as cluster:
        with pytest.raises(StartupError, match="Another living instance is named 'b'"):
            await cluster.add("b")
        await cluster.advance(seconds=5)
        assert cluster.instances["a"].member.live() == ("a", "b")


async def test_a_name_is_free_again_at_once_after_a_stop_and_after_the_lease_when_killed() -> None:
    async with Cluster("a", "b") as cluster:
        await cluster.stop("b")
        began = cluster.now
        await cluster.add("b")
        assert cluster.now == began
        await cluster.kill("b")
        await cluster.add("b")
        assert 9 < (cluster.now - began).total_seconds() < 15
        assert cluster.instances["a"].member.live() == ("a", "b")
