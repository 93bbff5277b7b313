"""Ordering keys in a cluster: nobody could keep their order, so they are refused."""

from __future__ import annotations

import pytest

from timerd.client import Client, FailedPrecondition
from timerd.testing import Cluster


async def test_an_ordering_key_is_refused_before_anything_is_written() -> None:
    async with Cluster("a") as cluster:
        client: Client = cluster.client("a")
        with pytest.raises(FailedPrecondition, match="Ordering keys need a server of one instance") as refused:
            await client.schedule("docs", b"x", delay=1, ordering_key="doc-42")
        assert refused.value.reason == "ORDERING_IN_CLUSTER"
