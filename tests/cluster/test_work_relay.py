"""Work across instances over real streams: whose tasks a worker gets, where its acks go, where its credit is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import grpc
import grpc.aio
import pytest

from tests.cluster.relays import GRACE_MS, Cluster, Town
from tests.services.raw_worker import ACK, NACK, REJECT, RELEASE, RawWorker
from tests.unit.deliveries import NOW_MS, taken_of
from timerd.core.dispatch.grants import LOAN_MS
from timerd.core.dispatch.settlement import Failure
from timerd.core.taken import QueueKey
from timerd.model.ack_token import parse_token
from timerd.model.attempts import AttemptEnd
from timerd.model.identity import ACK_TOKEN_BYTES, DELIVERY_ID_BYTES, RowKey
from timerd.peer.v1 import relay_pb2 as peer_pb
from timerd.services.work.link import METHOD, Links
from timerd.services.work.relay_service import HomeStream
from timerd.services.work.relaying import Relaying
from timerd.v1 import work_service_pb2 as pb

MAIL = QueueKey("default", "mail")
MANY = 20_000


def ids_in(sent: pb.Deliver) -> list[bytes]:
    return [
        sent.delivery_ids[at : at + DELIVERY_ID_BYTES] for at in range(0, len(sent.delivery_ids), DELIVERY_ID_BYTES)
    ]


def key_in(token: bytes) -> RowKey:
    return parse_token(token).key


async def test_a_worker_gets_the_tasks_of_all_instances() -> None:
    async with Cluster("A", "B", "C") as cluster:
        worker = await cluster.worker("A", ("mail", 30))
        for at, name in enumerate("ABC"):
            cluster[name].firing.put(taken_of(range(10 * at, 10 * at + 10)))
        sent = [await worker.deliver() for _ in range(3)]
        assert sum(len(each.fire_at_ms) for each in sent) == 30
        assert len({d for each in sent for d in ids_in(each)}) == 30
        assert cluster.in_flight("ABC") == [10, 10, 10]
        assert await worker.has_nothing()


async def test_an_ack_goes_to_the_instance_that_sent_the_task_and_is_confirmed_when_it_is_durable_there() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 4))
        cluster["A"].firing.put(taken_of(range(2)))
        cluster["B"].firing.put(taken_of(range(2, 4)))
        sent = [await worker.deliver() for _ in range(2)]
        cluster["B"].firing.durable.clear()
        await worker.settle(ACK, b"".join(each.ack_tokens for each in sent), sequence=8)
        await cluster.settle_down()
        assert [len(cluster[name].firing.ended) for name in "AB"] == [2, 2]
        cluster["B"].firing.durable.set()
        confirmed = await worker.confirmed()
        assert (confirmed.sequence, list(confirmed.refused)) == (8, [])
        assert cluster.in_flight("AB") == [0, 0]
        assert cluster["A"].firing.late == [], "nothing was looked for"


async def test_a_nack_and_a_reject_go_there_too() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 2))
        cluster["B"].firing.put(taken_of(range(2)))
        sent = await worker.deliver()
        await worker.settle(NACK, sent.ack_tokens[:64], delay_ms=7_000, error="later")
        assert not (await worker.confirmed()).HasField("problem")
        await worker.settle(REJECT, sent.ack_tokens[64:], error="never")
        assert not (await worker.confirmed()).HasField("problem")
        assert [(f.position_ms - NOW_MS, f.last_error) for f in cluster["B"].firing.failed] == [(7_000, "later")]
        assert [letter.last_error for letter in cluster["B"].firing.dead_letters] == ["never"]


async def test_what_is_refused_there_is_refused_at_its_place_in_the_message() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 3))
        cluster["A"].firing.put(taken_of([0]))
        own = (await worker.deliver()).ack_tokens
        cluster["B"].firing.put(taken_of([1]))
        other = (await worker.deliver()).ack_tokens
        forged = own[:-8] + bytes(8)
        forged = forged[:20] + bytes(16) + forged[36:]
        await worker.settle(ACK, own + forged + other)
        confirmed = await worker.confirmed()
        assert list(confirmed.refused) == [1]
        assert "not made by this service" in confirmed.problem.message


@pytest.mark.parametrize("at", ["A", "B"])
async def test_a_token_of_another_namespace_counts_nowhere(at: str) -> None:
    """Whichever instance is asked: the home of who has it, or the one that sent it."""
    async with Cluster("A", "B") as cluster:
        owner = await cluster.worker("A", ("mail", 2))
        cluster["B"].firing.put(taken_of(range(2)))
        tokens = (await owner.deliver()).ack_tokens
        theirs = await cluster.worker(at, ("mail", 2), resume=tokens, namespace="other")
        for action in (ACK, NACK, REJECT, RELEASE):
            await theirs.settle(action, tokens)
            confirmed = await theirs.confirmed()
            assert list(confirmed.refused) == [0, 1]
            assert "not made by this service" in confirmed.problem.message
        assert cluster.in_flight("AB") == [0, 2]
        assert [cluster[name].firing.leases for name in "AB"] == [{}, {}]
        await owner.settle(ACK, tokens)
        assert not (await owner.confirmed()).refused


async def test_a_worker_with_a_credit_of_one_never_has_two_tasks() -> None:
    async with Cluster("A", "B", "C") as cluster:
        worker = await cluster.worker("A", ("mail", 1))
        for at, name in enumerate("ABC"):
            cluster[name].firing.put(taken_of(range(20 * at, 20 * at + 20)))
        seen: list[bytes] = []
        for _ in range(60):
            sent = await worker.deliver()
            seen += ids_in(sent)
            assert len(sent.fire_at_ms) == 1
            assert sum(cluster.in_flight("ABC")) == 1
            await worker.settle(ACK, sent.ack_tokens)
            await worker.confirmed()
            await worker.credit("mail", 1)
        assert len(set(seen)) == len(seen) == 60


async def test_unused_credit_comes_back_and_is_used_elsewhere() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 1))
        # B asks, but somebody else is quicker.
        cluster["B"].firing.put(taken_of([1], position_ms=NOW_MS + 8))
        await cluster.settle_down()
        assert cluster["B"].delivery.machine.wanted(MAIL) == 1
        assert cluster["A"].delivery.machine.wanted(MAIL) == 0
        cluster["B"].firing.waiting.clear()
        await cluster.advance(1)
        assert cluster["A"].delivery.machine.wanted(MAIL) == 1
        cluster["A"].firing.put(taken_of([2]))
        assert len((await worker.deliver()).fire_at_ms) == 1


async def test_credit_that_is_kept_for_too_long_is_called_in() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 1))
        cluster["B"].firing.put(taken_of([1], position_ms=NOW_MS + 8))
        await cluster.settle_down()
        # B does not trust its clock.
        cluster["B"].firing.now_ms = None
        cluster["A"].firing.turn_clock(LOAN_MS)
        await cluster.settle_down()
        assert cluster["A"].delivery.machine.wanted(MAIL) == 1
        assert await worker.has_nothing()


async def test_credit_is_there_when_a_task_becomes_due() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 5))
        cluster["B"].firing.put(taken_of([1], position_ms=NOW_MS + 60))
        await cluster.settle_down()
        assert cluster["B"].delivery.machine.wanted(MAIL) == 0
        assert cluster["B"].alarm.at_ms == NOW_MS + 50
        await cluster.advance(50)
        assert cluster["B"].delivery.machine.wanted(MAIL) == 1
        assert await worker.has_nothing(), "nothing comes early"
        await cluster.advance(10)
        assert len((await worker.deliver()).fire_at_ms) == 1


async def test_a_queue_has_workers_everywhere_as_soon_as_it_has_one_anywhere() -> None:
    async with Cluster("A", "B", "C") as cluster:
        worker = await cluster.worker("A", ("mail", 1))
        await cluster.settle_down()
        assert [cluster[name].firing.presence for name in "ABC"] == [[("mail", True)]] * 3
        worker.call.cancel()
        await cluster.settle_down()
        await cluster.advance(GRACE_MS)
        assert [cluster[name].firing.presence[1:] for name in "ABC"] == [[("mail", False)]] * 3


async def test_a_link_that_comes_late_hears_of_the_queues() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 1))
        await cluster["A"].cut()
        await cluster.settle_down()
        await cluster.advance(GRACE_MS)
        assert cluster["B"].firing.presence == [("mail", True), ("mail", False)]
        cluster.tell()
        await cluster.settle_down()
        assert cluster["B"].firing.presence[2:] == [("mail", True)]
        assert await worker.has_nothing()


async def test_workers_of_other_instances_are_not_counted_as_own() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 1))
        cluster["B"].firing.put(taken_of([1]))
        await worker.deliver()
        assert [cluster[name].delivery.workers for name in "AB"] == [1, 0]


async def test_a_worker_that_dies_leaves_its_deliveries_to_another_after_the_grace() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 1))
        cluster["B"].firing.put(taken_of([1]))
        first = await worker.deliver()
        worker.call.cancel()
        await cluster.settle_down()
        assert cluster["B"].delivery.in_grace == 1
        other = await cluster.worker("A", ("mail", 1))
        assert await other.has_nothing()
        await cluster.advance(GRACE_MS)
        second = await other.deliver()
        assert ids_in(second) == ids_in(first)
        assert list(second.attempts) == [2]


async def test_who_gives_up_waiting_for_a_peer_does_not_break_the_stream_to_it() -> None:
    async with Cluster("A", "B") as cluster:
        peers = cluster["A"].peer_links
        [link] = cluster["A"].allocation.links.values()
        token = bytes(ACK_TOKEN_BYTES)
        given_up = asyncio.ensure_future(
            peers.fail_at("B", "default", token, Failure(NOW_MS, "no", end=AttemptEnd.REJECTED))
        )
        await asyncio.sleep(0)
        given_up.cancel()
        await cluster.settle_down()
        assert [*cluster["A"].allocation.links.values()] == [link]
        assert await peers.fail_at("B", "default", token, Failure(NOW_MS, "no", end=AttemptEnd.REJECTED)) is False


async def test_leases_of_tasks_from_elsewhere_are_extended() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 1), lease_ms=2_000)
        cluster["B"].firing.put(taken_of([1]))
        sent = await worker.deliver()
        for _ in range(4):
            await cluster.advance(1_500)
            await worker.extend(sent.ack_tokens)
            await cluster.settle_down()
        assert cluster.in_flight("AB") == [0, 1]
        await cluster.advance(2_200)
        assert cluster.in_flight("AB") == [0, 0], "it was not extended in time"
        lost = pb.Interrupt(ack_tokens=sent.ack_tokens, reason=pb.INTERRUPT_REASON_LOST)
        assert (await worker.next()).interrupt == lost
        await worker.extend(sent.ack_tokens)
        assert (await worker.next()).extended.lost == sent.ack_tokens


async def test_a_worker_that_stops_gets_nothing_after_its_release_is_confirmed() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 5))
        cluster["B"].firing.put(taken_of(range(2)))
        sent = await worker.deliver()
        await worker.settle(RELEASE, sent.ack_tokens[64:], sequence=7)
        assert (await worker.confirmed()).sequence == 7
        cluster["B"].firing.put(taken_of(range(5, 8)))
        cluster["A"].firing.put(taken_of(range(8, 9)))
        await cluster.settle_down()
        assert await worker.has_nothing()
        assert len(cluster["B"].firing.back) == 1


@pytest.mark.parametrize("home", ["A", "B", "C"])
async def test_who_gives_back_once_more_takes_nothing_from_the_next_worker(home: str) -> None:
    """By whichever home it comes back: the confirmation was lost with its stream."""
    async with Cluster("A", "B", "C") as cluster:
        stopping = await cluster.worker("A", ("mail", 1))
        cluster["B"].firing.put(taken_of([1]))
        old = (await stopping.deliver()).ack_tokens
        await stopping.settle(RELEASE, old)
        await stopping.confirmed()
        other = await cluster.worker("C", ("mail", 1))
        new = (await other.deliver()).ack_tokens
        stopping.call.cancel()
        again = await cluster.worker(home, resume=old)
        await again.settle(RELEASE, old)
        assert not (await answer(again)).refused
        await cluster.advance(2_000)
        await other.settle(ACK, new)
        assert not (await other.confirmed()).refused
        firing = cluster["B"].firing
        assert (len(firing.back), firing.failed, cluster.in_flight("ABC")) == (1, [], [0, 0, 0])


async def answer(worker: RawWorker) -> pb.SettleConfirmed:
    """What comes before it is of what the worker has lost."""
    response = await worker.next()
    return response.confirmed if response.HasField("confirmed") else await answer(worker)


async def test_the_tasks_of_an_instance_that_dies_stay_with_the_worker_and_its_credit_comes_back() -> None:
    async with Cluster("A", "B", "C") as cluster:
        worker = await cluster.worker("A", ("mail", 3))
        cluster["B"].firing.put(taken_of([1]))
        sent = await worker.deliver()
        cluster["B"].firing.put(taken_of([2], position_ms=NOW_MS + 8))
        await cluster.settle_down()
        await cluster.kill("B")
        assert cluster["A"].delivery.machine.wanted(MAIL) == 2, "what was lent is the worker's again"
        held = [cluster[name].firing.leases.keys() for name in "AC"]
        assert held == [set(ids_in(sent))] * 2, "whoever takes over holds the row back"
        await worker.extend(sent.ack_tokens)
        assert await worker.has_nothing(), "it is not lost"
        await worker.settle(ACK, sent.ack_tokens)
        assert not (await worker.confirmed()).HasField("problem")
        assert len(cluster["A"].firing.late) == 1, "it is looked for where it is now"


async def test_an_ack_that_was_on_its_way_to_an_instance_that_dies_is_taken_up_again() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 3))
        cluster["B"].firing.put(taken_of([1]))
        sent = await worker.deliver()
        cluster["B"].firing.durable.clear()
        await worker.settle(ACK, sent.ack_tokens)
        await cluster.settle_down()
        await cluster.kill("B")
        assert not (await worker.confirmed()).HasField("problem")
        assert len(cluster["A"].firing.late) == 1


async def test_a_stream_that_broke_is_taken_up_within_the_grace() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 3))
        cluster["B"].firing.put(taken_of([1]))
        sent = await worker.deliver()
        await cluster["A"].cut()
        await cluster.settle_down()
        assert cluster["B"].delivery.in_grace == 1
        cluster.tell()
        await cluster.settle_down()
        assert cluster["B"].delivery.in_grace == 0
        await cluster.advance(2 * GRACE_MS)
        assert cluster.in_flight("AB") == [0, 1]
        await worker.settle(ACK, sent.ack_tokens)
        assert not (await worker.confirmed()).HasField("problem")
        assert len(cluster["B"].firing.ended) == 1


@pytest.mark.parametrize("home", ["A", "C"])
async def test_what_never_reached_a_worker_costs_no_attempt_whoever_sent_it_and_whichever_home_it_comes_back_to(
    home: str,
) -> None:
    """Of the old home's own tasks and of those of another instance; it has one of each."""
    async with Cluster("A", "B", "C") as cluster:
        worker = await cluster.worker("A", ("mail", 4), stream=b"first")
        cluster["A"].firing.put(taken_of(range(2)))
        own = (await worker.deliver()).ack_tokens
        cluster["B"].firing.put(taken_of(range(2, 4)))
        other = (await worker.deliver()).ack_tokens
        again = await cluster.worker(home, ("mail", 2), resume=own[:64] + other[:64], replaces=[b"first"])
        sent = [await again.deliver() for _ in range(2)]
        assert {key_in(each.ack_tokens) for each in sent} == {key_in(own[64:]), key_in(other[64:])}, "the same attempts"
        assert [cluster[name].firing.failed for name in "ABC"] == [[], [], []]
        await cluster.advance(2 * GRACE_MS)
        assert cluster.in_flight("ABC") == [2, 2, 0]


async def test_a_worker_whose_home_dies_goes_on_at_another_one() -> None:
    async with Cluster("A", "B", "C") as cluster:
        worker = await cluster.worker("A", ("mail", 3))
        cluster["A"].firing.put(taken_of([0]))
        cluster["B"].firing.put(taken_of([1]))
        sent = [await worker.deliver() for _ in range(2)]
        tokens = b"".join(each.ack_tokens for each in sent)
        await cluster.kill("A")
        assert cluster["B"].delivery.in_grace == 1
        again = await cluster.worker("C", ("mail", 3), resume=tokens)
        assert again.opened.lost == b""
        await cluster.settle_down()
        assert cluster["B"].delivery.in_grace == 0
        await cluster.advance(2 * GRACE_MS)
        assert cluster.in_flight("BC") == [1, 0]
        of_a, of_b = (set(ids_in(each)) for each in sent)
        if of_b == set(ids_in(sent[0])):
            of_a, of_b = of_b, of_a
        assert not cluster["C"].firing.leases.keys() & of_b
        await again.settle(ACK, tokens)
        assert not (await again.confirmed()).HasField("problem")
        assert len(cluster["B"].firing.ended) == 1
        assert len(cluster["C"].firing.late) == 1, "that of A is looked for"


async def test_what_workers_have_when_their_home_leaves_in_peace_is_theirs_until_their_leases_end() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 3), lease_ms=5_000)
        cluster["B"].firing.put(taken_of([0, 1]))
        sent = await worker.deliver()
        await cluster["A"].delivery.drain(0)
        await cluster.settle_down()
        await cluster.kill("A")
        await cluster.advance(2 * GRACE_MS)
        assert (cluster["B"].delivery.in_flight, cluster["B"].firing.failed) == (2, [])
        again = await cluster.worker("B", ("mail", 0), resume=sent.ack_tokens[:64], lease_ms=5_000)
        assert again.opened.lost == b""
        await cluster.advance(5_000 - 2 * GRACE_MS + 100)
        assert [each.last_error.split(":")[0] for each in cluster["B"].firing.failed] == ["lease ended"]
        await again.settle(ACK, sent.ack_tokens[:64])
        assert not (await again.confirmed()).HasField("problem")
        assert len(cluster["B"].firing.ended) == 1


async def test_an_ack_that_comes_with_the_resume_waits_until_it_is_known_whose_it_is() -> None:
    async with Cluster("A", "B", "C") as cluster:
        worker = await cluster.worker("A", ("mail", 3))
        cluster["B"].firing.put(taken_of([1]))
        sent = await worker.deliver()
        await cluster.kill("A")
        again = await cluster.worker("C", ("mail", 3), resume=sent.ack_tokens)
        await again.settle(ACK, sent.ack_tokens)
        assert not (await again.confirmed()).HasField("problem")
        assert (len(cluster["B"].firing.ended), cluster["C"].firing.late) == (1, [])


async def test_an_instance_that_goes_away_gives_all_credit_back_and_waits_for_what_is_in_hand() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 3))
        cluster["B"].firing.put(taken_of([1]))
        sent = await worker.deliver()
        cluster["B"].firing.put(taken_of([2], position_ms=NOW_MS + 8))
        await cluster.settle_down()
        leaving = asyncio.create_task(cluster["B"].delivery.drain(10_000))
        await cluster.settle_down()
        assert cluster["A"].delivery.machine.wanted(MAIL) == 2
        assert not leaving.done()
        await worker.settle(ACK, sent.ack_tokens)
        await worker.confirmed()
        await leaving


async def test_a_home_that_goes_away_waits_for_the_tasks_of_others_too() -> None:
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 3))
        cluster["B"].firing.put(taken_of([1]))
        sent = await worker.deliver()
        leaving = asyncio.create_task(cluster["A"].delivery.drain(10_000))
        assert (await worker.next()).HasField("go_away")
        cluster["B"].firing.put(taken_of([2]))
        await cluster.settle_down()
        assert not leaving.done()
        await worker.settle(ACK, sent.ack_tokens)
        assert (await worker.confirmed()).sequence == 5
        await leaving


async def test_a_worker_that_does_not_read_stops_only_itself() -> None:
    async with Cluster("A", "B") as cluster:
        slow = await cluster.worker("A", ("mail", 100_000))
        for first in range(0, 200, 10):
            cluster["B"].firing.put(taken_of(range(first, first + 10), payload=bytes(60_000)))
        await cluster.settle_down()
        await cluster.settle_down()
        assert cluster["B"].delivery.in_flight < 200
        quick = await cluster.worker("A", ("mail", 100_000))
        got = 0
        while cluster["B"].delivery.in_flight < 200 or got == 0:
            got += len((await quick.deliver()).fire_at_ms)
        sent = [await slow.deliver()]
        assert sent[0].fire_at_ms


async def test_only_instances_of_the_cluster_may_open_a_relay() -> None:
    async with Cluster("A") as cluster, grpc.aio.insecure_channel(f"127.0.0.1:{cluster['A'].port}") as channel:
        method = channel.stream_stream(METHOD, peer_pb.RelayRequest.SerializeToString, peer_pb.RelayResponse.FromString)
        call = method()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_who_comes_back_at_another_address_is_linked_again() -> None:
    """As a pod does. Where it was nobody answers any more, and the channel to there is closed when that is known."""
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 2))
        with socket.create_server(("127.0.0.1", 0)) as silent:
            silence = f"127.0.0.1:{silent.getsockname()[1]}"
            await cluster.move("B", silence)
            await cluster.come_back("B")
            await cluster["A"].hang_up(silence)
        cluster["B"].firing.put(taken_of([1]))
        assert len((await worker.deliver()).fire_at_ms) == 1


async def test_what_is_on_its_way_to_a_home_that_leaves_still_reaches_its_worker() -> None:
    """The other one holds it to be delivered."""
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", MANY))
        home, other = cluster["A"], cluster["B"].delivery
        cluster["B"].firing.put(taken_of(range(MANY)))
        async with asyncio.timeout(10):
            while not other.in_flight:  # noqa: ASYNC110 - at the first instant at which something is on its way
                await asyncio.sleep(0)
        await home.delivery.drain(0)
        await Relaying(home.home, home.service, home.peer_links, home.links, lambda _: None).sync()
        await home.hanging_up.hang_up()
        arrived = 0
        while arrived < other.in_flight:
            said = await worker.next()
            arrived += len(said.deliver.fire_at_ms)
        assert arrived == other.in_flight


async def test_what_workers_have_when_their_home_breaks_off_while_it_leaves_is_theirs_until_their_leases_end() -> None:
    """That it leaves stands in the store: what it said itself may have gone with the stream."""
    async with Cluster("A", "B") as cluster:
        worker = await cluster.worker("A", ("mail", 2), lease_ms=30_000)
        cluster["B"].firing.put(taken_of(range(2)))
        await worker.deliver()
        cluster["B"].going.add("A")
        await cluster.kill("A")
        await cluster.advance(GRACE_MS + 1)
        assert (cluster.in_flight("B"), cluster["B"].firing.failed) == ([2], [])
        await cluster.advance(30_000)
        assert len(cluster["B"].firing.failed) == 2


async def test_what_never_left_for_a_home_that_is_gone_is_sent_to_others_at_once() -> None:
    async with Cluster("B") as cluster:
        b = cluster["B"]
        stream = HomeStream(b.delivery, b.asking, lambda _: True)
        asked = (
            peer_pb.RelayRequest(served=peer_pb.QueueServed(namespace="default", queue="mail", served=True)),
            peer_pb.RelayRequest(opened=peer_pb.WorkerOpened(worker=7, namespace="default", lease_ms=30_000)),
            peer_pb.RelayRequest(granted=peer_pb.CreditGranted(worker=7, queue="mail", tasks=2)),
        )
        for each in asked:
            stream.take(each)
        b.firing.put(taken_of(range(2)))
        await cluster.settle_down()
        assert cluster.in_flight("B") == [2]
        stream.over()
        await cluster.settle_down()
        assert (cluster.in_flight("B"), len(b.firing.back), b.firing.failed) == ([0], 2, [])


async def test_a_server_that_hangs_up_ends_the_streams_of_its_workers_without_an_error() -> None:
    """What comes with an error is thrown away by gRPC, unread messages with it."""
    async with Cluster("A") as cluster:
        worker = await cluster.worker("A", ("mail", 2))
        cluster["A"].firing.put(taken_of(range(2)))
        await cluster["A"].hanging_up.hang_up()
        assert len((await worker.next()).deliver.fire_at_ms) == 2
        assert await worker.call.code() is grpc.StatusCode.OK


class ClosedChannel:
    """gRPC cancels the calls on a channel that is closed, as if the one who waits for them had been cancelled."""

    def __init__(self) -> None:
        self.calls = 0

    def stream_stream(self, *_: object) -> Callable[..., ClosedChannel]:
        return self

    def __call__(self, *, metadata: object) -> ClosedChannel:
        self.calls += 1
        return self

    async def write(self, _: object) -> None:
        raise asyncio.CancelledError

    def cancel(self) -> None:
        """It is over already."""


async def test_a_channel_that_is_closed_ends_the_call_and_not_the_link() -> None:
    async with Cluster("A") as cluster:
        closed = ClosedChannel()
        links = Links(cluster["A"].home, Town("A", {"A": "here", "B": "there"}), lambda _: closed, ())  # type: ignore[arg-type,return-value]
        links.look()
        async with asyncio.timeout(10):
            while closed.calls < 2:
                await cluster.settle_down()
        await links.close()
        assert closed.calls >= 2, "the call had ended, and another one was made"


async def test_nothing_is_kept_of_queues_that_a_home_serves_no_more() -> None:
    """Its stream may last for months."""
    async with Cluster("B") as cluster:
        b = cluster["B"]
        stream = HomeStream(b.delivery, b.asking, lambda _: False)
        for number in range(20):
            queue = f"queue-{number}"
            for each in (
                peer_pb.RelayRequest(served=peer_pb.QueueServed(namespace="default", queue=queue, served=True)),
                peer_pb.RelayRequest(opened=peer_pb.WorkerOpened(worker=7, namespace="default", lease_ms=30_000)),
                peer_pb.RelayRequest(granted=peer_pb.CreditGranted(worker=7, queue=queue, tasks=2)),
                peer_pb.RelayRequest(left=peer_pb.WorkerLeft(worker=7)),
                peer_pb.RelayRequest(served=peer_pb.QueueServed(namespace="default", queue=queue, served=False)),
            ):
                stream.take(each)
        await cluster.advance(GRACE_MS + 1)
        share, hold = b.delivery.machine.capacity.share, b.delivery._send_hold
        assert (stream._granted_for, hold._windows, list(share._queues.values())) == ({}, {}, [set()])
