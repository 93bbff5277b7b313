"""Rules of a queue are changed one by one: what a call does not name stays."""

from __future__ import annotations

from datetime import timedelta

import pytest

from timerd.client import Aborted, BreakerState, Client, InvalidTask, KeyLimit, KeyRules, OnFailure, QueueLimit
from timerd.testing import Server
from timerd.v1 import regulation_service_pb2 as pb
from timerd.v1.regulation_service_pb2_grpc import RegulationServiceStub

SECOND = timedelta(seconds=1)


async def test_what_a_call_does_not_name_stays(client: Client) -> None:
    await client.limits.put("stripe", max_in_hand=9)
    rules = KeyRules(KeyLimit(max_in_hand=4), overrides={"acme": KeyLimit(max_in_hand=20)}, share=0.25)
    await client.queues.put("charges", rate="10/s", max_in_hand=7, limits=["stripe"], breaker=True, keys=rules)
    halts = await client.queues.update("charges", ordering="halt")
    assert (halts.ordering, halts.limit, halts.limits) == (OnFailure.HALT, QueueLimit(7, 10, SECOND, 1), ("stripe",))
    assert (halts.breaker, halts.keys and halts.keys.share) == (BreakerState.CLOSED, 0.25)
    keyed = await client.queues.update(
        "charges", key_max_in_hand=5, key_limits={"initech": KeyLimit(rate="1/s")}, key_weights={"acme": 2}
    )
    assert keyed.keys is not None
    assert keyed.keys.limit == QueueLimit(5, None, SECOND, 0)
    assert sorted(keyed.keys.overrides) == ["acme", "initech"]
    assert (keyed.keys.share, keyed.keys.weights, keyed.limit) == (0.25, {"acme": 2.0}, halts.limit)
    again = await client.queues.update("charges", key_limits={"acme": None}, key_weights={"acme": None, "b": 0.5})
    assert again.keys is not None
    assert (list(again.keys.overrides), again.keys.weights) == (["initech"], {"b": 0.5})
    cleared = await client.queues.update("charges", clear=["max_in_hand", "limits", "breaker", "keys"])
    assert (cleared.limit, cleared.limits) == (QueueLimit(None, 10, SECOND, 1), ())
    assert (cleared.breaker, cleared.keys, cleared.ordering) == (None, None, OnFailure.HALT)
    assert (await client.queues.update("charges", clear=["rate"])).limit is None


async def test_a_burst_that_nobody_gave_goes_with_its_rate(client: Client) -> None:
    await client.queues.put("charges", rate="10/s")
    faster = await client.queues.update("charges", rate="1000/s")
    assert faster.limit == QueueLimit(None, 1_000, SECOND, 100)
    await client.queues.update("charges", burst=300)
    slower = await client.queues.update("charges", rate="2000/s")
    assert slower.limit == QueueLimit(None, 2_000, SECOND, 300)


async def test_a_repeat_changes_nothing_and_another_revision_is_refused(client: Client) -> None:
    first = await client.queues.update("charges", max_in_hand=3, request_id="once")
    await client.queues.update("charges", max_in_hand=8)
    repeat = await client.queues.update("charges", max_in_hand=3, request_id="once")
    assert (repeat, (await client.queues.get("charges")).limit) == (first, QueueLimit(8, None, SECOND, 0))
    with pytest.raises(Aborted, match="revision 2 by now"):
        await client.queues.update("charges", breaker=True, revision=1)


async def test_wrong_changes_are_refused_before_anything_is_written(server: Server, client: Client) -> None:
    with pytest.raises(InvalidTask, match="Nothing is changed"):
        await client.queues.update("charges")
    with pytest.raises(InvalidTask, match="`clear` names 'all': use rate, burst"):
        await client.queues.update("charges", clear=["all"])
    with pytest.raises(InvalidTask, match="The weight of 'acme' is 0: give"):
        await client.queues.update("charges", key_weights={"acme": 0})
    with pytest.raises(InvalidTask, match="The limit limits nothing: give max_in_hand, or a rate"):
        await client.queues.update("charges", burst=3)
    stub = RegulationServiceStub(client._channel)
    for paths, says in (([], "update_mask is empty"), (["mode"], "update_mask names 'mode'")):
        request = pb.UpdateQueueRequest(queue="charges")
        request.update_mask.paths.extend(paths)
        with pytest.raises(Exception, match=says):
            await stub.UpdateQueue(request)
    assert (await client.queues.get("charges")).revision == 0
