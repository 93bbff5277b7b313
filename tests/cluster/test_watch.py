"""Looking on at a cluster: whichever instance is asked tells of all, and names those that it does not hear."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import grpc
import grpc.aio
import pytest

from tests.fundamentals.screen import looking_on, until
from timerd.client import DeliveryEventKind
from timerd.peer.v1 import inspect_service_pb2
from timerd.peer.v1.inspect_service_pb2_grpc import InspectServiceStub
from timerd.services.operating import watching
from timerd.services.operating.inspect_service import InspectService
from timerd.testing import Cluster
from timerd.worker import Delivery

TASKS = 60


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instances that are silent are asked again without much delay."""
    monkeypatch.setattr(watching, "AGAIN_S", 0.1)
    monkeypatch.setattr(watching, "QUIET_S", 0.5)


async def acknowledge(_delivery: Delivery) -> None:
    """Nothing is to do."""


async def plan(cluster: Cluster) -> None:
    """In several partitions, which all instances share."""
    for name in cluster.instances:
        worker = cluster.worker(name)
        worker.on("mails", concurrency=16)(acknowledge)
        await worker.start()
    items = [(b"%d" % n, cluster.now + timedelta(minutes=4, seconds=10 * n)) for n in range(TASKS)]
    await cluster.client(next(iter(cluster.instances))).schedule_many("mails", items)


async def test_the_instance_that_is_asked_tells_what_all_of_them_send() -> None:
    async with Cluster("a", "b", "c") as cluster:
        await plan(cluster)
        async with looking_on(cluster.client("b"), max_per_second=1_000) as screen:
            await cluster.advance(minutes=16)
            await until(lambda: len(screen.events) + screen.left_out == 2 * TASKS)
            assert not screen.parts[-1].silent
        kinds = Counter(event.kind for event in screen.events)
        assert kinds == {DeliveryEventKind.SENT: TASKS, DeliveryEventKind.ACKED: TASKS}
        assert len({event.task_id for event in screen.events}) == TASKS
        assert len({event.instance for event in screen.events}) > 1


async def test_an_instance_that_is_gone_is_named_until_it_is_no_instance_any_more() -> None:
    async with Cluster("a", "b") as cluster, looking_on(cluster.client("a")) as screen:
        await cluster.kill("b")
        await until(lambda: list(screen.parts[-1].silent) == ["b"])
        await cluster.advance(seconds=30)
        await until(lambda: not screen.parts[-1].silent)


async def test_an_instance_that_comes_later_is_told_of_too() -> None:
    async with Cluster("a") as cluster:
        async with looking_on(cluster.client("a")):
            added = await cluster.add("b")
            await cluster.advance(seconds=10)
            await until(lambda: added.node.delivery.tail.is_read)
        await until(lambda: not added.node.delivery.tail.is_read)


async def test_an_instance_of_an_older_release_is_left_out_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = InspectService.handler

    class Older:
        """Knows all methods but the new one."""

        def __init__(self, inner: grpc.GenericRpcHandler) -> None:
            self._inner = inner

        def service(self, details: Any) -> Any:  # noqa: ANN401 - as grpc has it
            return None if details.method.endswith("/Watch") else self._inner.service(details)

    async with Cluster("a") as cluster:
        monkeypatch.setattr(InspectService, "handler", lambda self: Older(handler(self)))
        await cluster.add("b")
        await cluster.advance(seconds=10)
        async with looking_on(cluster.client("a")) as screen:
            await until(lambda: list(screen.parts[-1].silent) == ["b"])


async def test_only_instances_of_the_cluster_may_ask_an_instance_what_it_sends() -> None:
    async with Cluster("a", "b") as cluster:
        address = cluster.instances["b"].node.address
        async with grpc.aio.insecure_channel(address) as channel:
            call = InspectServiceStub(channel).Watch(
                inspect_service_pb2.WatchRequest(namespace="default", max_per_second=1)
            )
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call.read()
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
