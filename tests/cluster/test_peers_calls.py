"""The calls between instances by themselves: who may make them, whom they speak for, and what is lost when nobody
answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import numpy as np
import pytest

from tests.cluster.peer_rig import Pair, until
from timerd.core.partition.holding import Asked
from timerd.core.protocol.procedures import AskToEnd, AskToMove, HolderAnswer, OfferRows
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.registers import Control, control_key
from timerd.model.settle import Outcome
from timerd.peer.v1 import peer_service_pb2 as pb
from timerd.peer.v1.peer_service_pb2_grpc import PeerServiceStub
from timerd.services.peers import peers as peers_module
from timerd.services.peers.peer_wire import TOKEN_HEADER, HintedRows, Holder, rows_message, rows_of
from timerd.services.peers.peers import Outbox, Peers, Silent
from timerd.testing.contracts.build import digest, tasks

HERE = Partition(0, 0, 0)
KEY = RowKey(1, digest("m", 0), 0)
CALLS = {
    "Hint": pb.HintRequest(),
    "Offer": pb.OfferRequest(),
    "AskToEnd": pb.AskToEndRequest(),
    "AskToMove": pb.AskToMoveRequest(),
    "Recheck": pb.RecheckRequest(),
    "HandOver": pb.HandOverRequest(),
}


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with Pair() as running:
        await running.b_holds()
        yield running


def peers_of(pair: Pair) -> Peers:
    peering = pair.cluster.instances["a"].node.peering
    assert peering is not None
    return peering.peers


async def holder_of(pair: Pair) -> Holder:
    stored = (await pair.cluster.store.read([control_key(pair.bucket)]))[0]
    control = Control.from_bytes(stored or b"")
    return Holder(control.holder, control.address, control.token)


def end(partition: Partition) -> AskToEnd:
    return AskToEnd(partition, RowKey(partition.end_ms - 2, KEY.digest, 0), Outcome.CANCELLED, b"request")


# -- who may ask ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "", "no such token"])
async def test_nobody_else_may_call(pair: Pair, token: str | None) -> None:
    metadata = ((TOKEN_HEADER, token),) if token is not None else ()
    async with grpc.aio.insecure_channel(pair.cluster.instances["b"].node.address) as channel:
        for name, request in CALLS.items():
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await getattr(PeerServiceStub(channel), name)(request, metadata=metadata)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED, name


async def test_a_wrong_token_is_no_answer(pair: Pair) -> None:
    stranger = Peers("of another cluster")
    with pytest.raises(Silent):
        await stranger.ask_to_end(await holder_of(pair), pair.bucket, [end(pair.bucket)])
    await stranger.close()


# -- for whom is answered -------------------------------------------------------------------------------------------


async def test_only_the_holder_that_is_named_answers_by_the_token_that_is_named(pair: Pair) -> None:
    peers, holder = peers_of(pair), await holder_of(pair)
    ask, offer = end(pair.bucket), OfferRows(pair.bucket, tasks("m", [pair.bucket.end_ms - 3]), 0)
    assert await peers.ask_to_end(holder, pair.bucket, [ask]) == [HolderAnswer(Asked.WAITING, None, b"request")]
    strangers = [
        holder._replace(token=holder.token - 1),
        holder._replace(token=holder.token + 1),
        holder._replace(name="c"),
    ]
    for stranger in strangers:
        assert await peers.ask_to_end(stranger, pair.bucket, [ask]) is None
        assert await peers.ask_to_move(stranger, pair.bucket, [AskToMove(pair.bucket, ask.key)]) is None
        assert await peers.offer(stranger, offer) is None


async def test_what_it_does_not_hold_it_does_not_answer_for(pair: Pair) -> None:
    holder = (await holder_of(pair))._replace(token=0)
    assert await peers_of(pair).ask_to_end(holder, HERE, [end(HERE)]) is None


async def test_a_holder_says_with_what_a_worker_may_come_back(pair: Pair) -> None:
    """It was due before it took the partition over."""
    peers, holder = peers_of(pair), await holder_of(pair)
    early, late = (KEY._replace(position_ms=each) for each in (1, pair.bucket.end_ms - 2))
    assert [await peers.may_return(holder, pair.bucket, key) for key in (early, late)] == [True, False]
    assert await peers.may_return(holder._replace(token=holder.token + 1), pair.bucket, early) is None


async def test_each_row_has_its_own_answer(pair: Pair) -> None:
    """The verdict that was given first stands."""
    peers, holder = peers_of(pair), await holder_of(pair)
    asks = [AskToEnd(pair.bucket, KEY._replace(position_ms=pair.bucket.end_ms - 2), Outcome.CANCELLED, b"one")]
    asks.append(AskToEnd(pair.bucket, RowKey(pair.bucket.end_ms - 2, digest("m", 1), 0), Outcome.PURGED, b"two"))
    for _ in range(2):
        said = await peers.ask_to_end(holder, pair.bucket, asks) or []
        assert [answer.request for answer in said] == [b"one", b"two"]
    assert [answer.outcome for answer in said] == [Outcome.CANCELLED, Outcome.PURGED]


# -- when nobody answers --------------------------------------------------------------------------------------------


async def test_who_was_silent_is_not_waited_for_again_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A cancel of ten thousand in a hundred partitions of one dead holder waits once, not a hundred times."""
    monkeypatch.setattr(peers_module, "DEADLINE_S", 0.05)
    monkeypatch.setattr(peers_module, "SILENCE_S", 60.0)
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        peers, holder = Peers("token"), Holder("b", f"127.0.0.1:{frozen.getsockname()[1]}", 1)
        for _ in range(100):
            with pytest.raises(Silent):
                await peers.ask_to_end(holder, HERE, [end(HERE)])
        # grpcio's wake-ups for other loops of this process are logged by asyncio, and are none of ours.
        assert [record.levelname for record in caplog.records if record.name.startswith("timerd")] == ["WARNING"]
        await peers.close()


async def test_hints_to_nobody_are_dropped_and_counted() -> None:
    peers = Peers("token")
    for _ in range(3):
        peers.hint("127.0.0.1:1", HintedRows(HERE, tasks("m", [1, 2]), 0))
    await until(lambda: peers.dropped_hints >= 3)
    await peers.close()
    assert peers.dropped_hints == 3


def test_an_outbox_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_module, "WAITING_BYTES", 1_000)
    monkeypatch.setattr(peers_module, "BATCH_BYTES", 300)
    box, hinted = Outbox(), HintedRows(HERE, tasks("m", [1, 2]), 0)
    took = [box.put(hinted) for _ in range(50)]
    size_bytes = peers_module.wire_bytes(hinted)
    assert took.count(True) == 1_000 // size_bytes
    assert [len(box.take()) for _ in range(3)] == [300 // size_bytes] * 3
    while box.waiting:
        assert box.take()
    assert box.waiting_bytes == 0
    assert box.put(HintedRows(HERE, tasks("m", range(100)), 0))


def test_rows_travel_without_the_rest_of_their_message() -> None:
    rows = tasks("m", range(1_000), payload=b"x" * 100)
    few = rows.select(np.arange(3))
    message = rows_message(HintedRows(HERE, few, 7))
    assert len(message.SerializeToString()) < 1_000
    back = rows_of(pb.Rows.FromString(message.SerializeToString()))
    assert (back.partition, back.source) == (HERE, 7)
    assert back.rows.keys() == few.keys()
    assert [back.rows.payload(n) for n in range(3)] == [b"x" * 100] * 3


async def test_what_still_asks_when_an_instance_has_hung_up_has_no_answer(pair: Pair) -> None:
    """A late ack is looked for while its server stops: to the worker that is no error of the server's."""
    holder, peers = await holder_of(pair), Peers("token")
    await peers.close()
    with pytest.raises(Silent):
        await peers.ask_to_end(holder, pair.bucket, [end(pair.bucket)])


async def test_a_hand_over_is_told_although_another_call_was_not_answered(pair: Pair) -> None:
    """Its tasks wait for it: who was silent a moment ago is called all the same."""
    b, told = pair.cluster.instances["b"], list[tuple[Partition, Control | None]]()
    assert b.node.peering is not None
    b.node.peering.service._handed_over = lambda *said: told.append(said)
    peers, address = peers_of(pair), b.node.address
    peers._silent_until_s[address] = asyncio.get_running_loop().time() + 60
    control = Control(7, "", "", HERE.bucket_ms, HERE.bucket_ms, successor="b")
    peers.hand_over(address, HERE, control)
    await until(lambda: told == [(HERE, control)])
