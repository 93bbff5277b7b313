"""Delivery over real gRPC on loopback, with raw stubs and an engine in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc.aio
import pytest

from tests.services.raw_worker import ACK, GRACE_MS, NACK, REJECT, RELEASE, RawWorker, Rig, rig
from tests.unit.deliveries import NOW_MS, SECRET, ids_of, taken_of, tokens_of
from timerd.core.dispatch.delivery_machine import Assignment
from timerd.core.dispatch.interrupts import InterruptReason
from timerd.core.dispatch.quantum import FIRST_SLICE_TASKS, SHARED_SLICE_TASKS, SLICE_BYTES, SOON_MS
from timerd.core.dispatch.settlement import Action
from timerd.model.ack_token import parse_token
from timerd.model.errors import StoreUnavailable
from timerd.model.identity import ACK_TOKEN_BYTES, RowKey
from timerd.model.rows import FLAG_LATE
from timerd.model.task import RetryPolicy, Template
from timerd.services.dispatch.delivery import STREAM_BYTES
from timerd.services.dispatch.late_settling import SLICE_TOKENS, SLICES_AT_ONCE
from timerd.services.dispatch.ports import Confirmation, Sent
from timerd.services.dispatch.tokens import ack_tokens
from timerd.services.engine.verbs import State
from timerd.services.work.home_worker import each_token
from timerd.services.work.work_stream import _TOKEN_BYTES
from timerd.v1 import work_service_pb2 as pb

__all__ = ["rig"]

FLAT = Template("default", "mail", retry=RetryPolicy(jitter=0.0))


def keys_in(tokens: bytes) -> list[RowKey]:
    return [parse_token(token).key for token in each_token(tokens)]


class Silent:
    """A sink that takes everything, and no backlog. `confirmed`: what it was answered."""

    counts_as_worker = False
    takes_backlog = False
    closing = False
    namespace = "default"

    def __init__(self, number: int) -> None:
        self.number = number
        self.tokens = b""
        self.confirmed: list[Confirmation] = []
        self.interrupted: list[tuple[bytes, InterruptReason]] = []
        self.is_told = False

    def deliver(self, assignment: Assignment) -> Sent:
        self.tokens += ack_tokens(assignment.taken, SECRET)
        return Sent(1, len(assignment.taken))

    def block_if_full(self) -> bool:
        return False

    def owe(self, tokens: int) -> None:
        """Each settle is confirmed by itself."""

    def confirm(self, confirmation: Confirmation) -> None:
        self.confirmed.append(confirmation)

    def interrupt(self, tokens: bytes, reason: InterruptReason) -> None:
        self.interrupted.append((tokens, reason))

    def go_away(self) -> None:
        self.is_told = True


async def test_a_sink_need_not_be_a_worker_and_leaves_the_backlog_to_others(rig: Rig) -> None:
    rig.firing.put(taken_of(range(2)))
    sink = Silent(rig.delivery.next_number())
    rig.delivery.join(sink, "default", 30_000)
    rig.delivery.credit(sink, "mail", 2)
    await rig.settle_down()
    assert (rig.firing.presence, rig.delivery.workers, rig.delivery.in_flight) == ([], 0, 2)
    await rig.worker(("mail", 1))
    assert (rig.firing.presence, rig.delivery.workers) == ([("mail", True)], 1)
    rig.delivery.settle(sink, 3, Action.ACK, sink.tokens, None, "")
    await rig.settle_down()
    assert sink.confirmed == [Confirmation(3, 2)]
    assert sink.confirmed[0].problem == ""
    rig.delivery.settle(sink, 4, Action.NACK, bytes(ACK_TOKEN_BYTES), None, "")
    await rig.settle_down()
    assert sink.confirmed[1].problem.startswith("This ack token was not made by this service.")
    await rig.delivery.drain(10)
    assert sink.is_told


async def test_many_who_wait_for_one_write_that_fails_hear_of_one_incident(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.firing.put(taken_of(range(2)))
    worker = await rig.worker(("mail", 2))
    tokens = (await worker.deliver()).ack_tokens
    rig.firing.error = RuntimeError("out of the blue")
    await worker.settle(ACK, tokens[:ACK_TOKEN_BYTES], sequence=1)
    await worker.settle(ACK, tokens[ACK_TOKEN_BYTES:], sequence=2)
    problems = {(await worker.confirmed()).problem.message for _ in range(2)}
    assert len(problems) == 1
    assert problems.pop().rpartition(" ")[0].endswith("under incident")
    assert len([record for record in caplog.records if record.message.startswith("incident ")]) == 1


async def test_credit_is_respected(rig: Rig) -> None:
    rig.firing.put(taken_of(range(10)))
    worker = await rig.worker(("mail", 3))
    assert worker.opened == pb.Opened(server="here", lease_ms=30_000, ack_token_bytes=64, knows_pools=True)
    assert len((await worker.deliver()).fire_at_ms) == 3
    assert await worker.has_nothing()
    await worker.credit("mail", 2)
    assert len((await worker.deliver()).fire_at_ms) == 2
    assert await worker.has_nothing()
    assert rig.delivery.in_flight == 5


async def test_what_a_worker_has_not_begun_goes_to_another_at_once(rig: Rig) -> None:
    rig.firing.put(taken_of(range(3)))
    stopping = await rig.worker(("mail", 5))
    sent = await stopping.deliver()
    await stopping.settle(RELEASE, sent.ack_tokens[64:], sequence=7)
    assert (await stopping.confirmed()) == pb.SettleConfirmed(sequence=7)
    assert await stopping.has_nothing(), "its credit is void"
    other = await rig.worker(("mail", 5))
    tokens = b"".join([(await other.deliver()).ack_tokens, (await other.deliver()).ack_tokens])
    assert keys_in(tokens) == keys_in(sent.ack_tokens[64:]), "the same attempts"
    assert set(each_token(tokens)).isdisjoint(each_token(sent.ack_tokens)), "other deliveries"
    assert rig.delivery.in_flight == 3
    assert rig.firing.failed == []


async def test_who_gives_back_once_more_takes_nothing_from_the_next_worker(rig: Rig) -> None:
    """Its stream broke before the first time was confirmed, so it comes back with the tokens and says it again. The
    tasks are with another worker by then."""
    rig.firing.put(taken_of(range(3), FLAT))
    stopping = await rig.worker(("mail", 3))
    old = (await stopping.deliver()).ack_tokens
    await stopping.settle(RELEASE, old)
    await stopping.confirmed()
    other = await rig.worker(("mail", 3))
    tokens = b"".join([(await other.deliver()).ack_tokens for _ in range(3)])
    stopping.call.cancel()
    again = await rig.worker(resume=old)
    assert again.opened.lost == old
    await again.settle(RELEASE, old)
    assert not (await again.confirmed()).HasField("problem")
    await again.extend(old)
    assert (await again.next()).extended.lost == old
    await rig.advance(GRACE_MS + 100)
    assert (rig.delivery.in_flight, len(rig.firing.back)) == (3, 3)
    await other.settle(ACK, tokens)
    assert not (await other.confirmed()).refused
    assert (rig.delivery.in_flight, rig.firing.failed) == (0, [])


async def test_who_comes_back_with_what_it_gave_back_does_not_have_it(rig: Rig) -> None:
    """Nobody else has it yet: it is not held back for a worker that has said that it will not begin."""
    rig.firing.put(taken_of(range(2)))
    stopping = await rig.worker(("mail", 2))
    old = (await stopping.deliver()).ack_tokens
    rig.firing.durable.clear()
    await stopping.settle(RELEASE, old)
    await rig.settle_down()
    again = await rig.worker(resume=old)
    assert (again.opened.lost, rig.firing.leases) == (old, {})


async def test_a_worker_may_say_that_it_takes_nothing_more(rig: Rig) -> None:
    worker = await rig.worker(("mail", 5))
    await worker.settle(RELEASE, b"", sequence=1)
    assert (await worker.confirmed()).sequence == 1
    rig.firing.put(taken_of(range(3)))
    assert await worker.has_nothing()
    await worker.credit("mail", 1)
    assert len((await worker.deliver()).fire_at_ms) == 1


async def test_a_deliver_names_everything(rig: Rig) -> None:
    template = Template("default", "mail", 3, (("a", "b"),), "text/plain", soft_expire_at_ms=NOW_MS)
    taken = taken_of([4, 9], template, version=(2 << 16) + 1, payload=b"hello")
    rig.firing.put(taken)
    deliver = await (await rig.worker(("mail", 5))).deliver()
    assert deliver.delivery_ids == b"".join(ids_of(taken))
    assert (deliver.queue, list(deliver.attempts), list(deliver.late)) == ("mail", [2, 2], [0, 1])
    assert (list(deliver.payload_lengths), deliver.payloads) == ([5], b"hellohello")
    [common] = deliver.templates
    assert (dict(common.labels), common.content_type, common.priority) == ({"a": "b"}, "text/plain", 3)
    assert (common.fencing_token, deliver.attempt_timeout_ms) == (7, 3_600_000)
    assert rig.delivery.queue_stats.lateness_counts()[0] == 2


async def test_nothing_is_sent_before_its_time(rig: Rig) -> None:
    rig.firing.put(taken_of([1], position_ms=NOW_MS + 5))
    worker = await rig.worker(("mail", 3))
    assert await worker.has_nothing()
    assert rig.alarm.at_ms == NOW_MS + 5
    rig.firing.now_ms = NOW_MS + 4
    rig.alarm.ring()
    assert await worker.has_nothing()
    rig.firing.now_ms = NOW_MS + 5
    rig.alarm.ring()
    assert len((await worker.deliver()).fire_at_ms) == 1


async def test_nothing_fires_while_the_clock_is_not_trusted(rig: Rig) -> None:
    rig.firing.now_ms = None
    rig.firing.put(taken_of([1]))
    worker = await rig.worker(("mail", 3))
    assert await worker.has_nothing()
    rig.firing.now_ms = NOW_MS
    rig.firing._wake()
    assert len((await worker.deliver()).fire_at_ms) == 1


async def test_it_looks_by_itself_whether_time_is_trusted_again(rig: Rig) -> None:
    """Nobody wakes it where nothing happens then: another instance may wait for credit, and asks once."""
    worker = await rig.worker(("mail", 3))
    rig.firing.now_ms = None
    rig.firing.put(taken_of([1]))
    assert await worker.has_nothing()
    rig.firing.now_ms = NOW_MS
    assert len((await worker.deliver()).fire_at_ms) == 1


async def test_a_lease_that_was_extended_while_the_clock_was_not_trusted_goes_on(rig: Rig) -> None:
    """Else another worker would have the task as soon as it is trusted again."""
    rig.firing.put(taken_of([1]))
    worker = await rig.worker(("mail", 1))
    tokens = (await worker.deliver()).ack_tokens
    rig.firing.now_ms, rig.firing.doubtful_ms = None, NOW_MS + 20_000
    await worker.call.write(pb.WorkRequest(extend=pb.Extend(ack_tokens=tokens)))
    await rig.settle_down()
    rig.firing.now_ms = NOW_MS + 40_000
    rig.firing._wake()
    await rig.settle_down()
    assert (rig.firing.failed, rig.delivery.in_flight) == ([], 1)


async def test_an_ack_is_confirmed_when_it_is_durable(rig: Rig) -> None:
    rig.firing.put(taken_of(range(2)))
    worker = await rig.worker(("mail", 2))
    tokens = (await worker.deliver()).ack_tokens
    rig.firing.durable.clear()
    await worker.settle(ACK, tokens)
    await worker.credit("mail", 1)
    rig.firing.put(taken_of([7]))
    await worker.deliver()
    assert len(rig.firing.ended) == 2
    rig.firing.durable.set()
    assert await worker.confirmed() == pb.SettleConfirmed(sequence=5)


async def test_a_settle_that_could_not_be_stored_says_so(rig: Rig) -> None:
    rig.firing.put(taken_of(range(2)))
    worker = await rig.worker(("mail", 2))
    rig.firing.error = StoreUnavailable("The disk is full: free some space.", "STORE_UNAVAILABLE")
    await worker.settle(ACK, (await worker.deliver()).ack_tokens)
    confirmed = await worker.confirmed()
    assert (list(confirmed.refused), confirmed.problem.reason) == ([0, 1], "STORE_UNAVAILABLE")


async def test_a_nack_is_delivered_again(rig: Rig) -> None:
    rig.firing.put(taken_of([1], FLAT))
    worker = await rig.worker(("mail", 2))
    first = await worker.deliver()
    await worker.settle(NACK, first.ack_tokens, delay_ms=50, error="not now")
    assert (await worker.confirmed()).sequence == 5
    assert [a.last_error for a in rig.firing.failed] == ["not now"]
    await rig.advance(50)
    second = await worker.deliver()
    assert (second.delivery_ids, list(second.attempts)) == (first.delivery_ids, [2])
    # The same as the task's own: it lives where it did.
    assert second.ack_tokens != first.ack_tokens


async def test_a_reject_is_buried(rig: Rig) -> None:
    rig.firing.put(taken_of([1]))
    worker = await rig.worker(("mail", 2))
    deliver = await worker.deliver()
    await worker.settle(REJECT, deliver.ack_tokens, error="bad input")
    await worker.confirmed()
    assert [(x.task_id, x.last_error) for x in rig.firing.dead_letters] == [(deliver.task_ids, "bad input")]


@pytest.mark.parametrize("action", [NACK, REJECT])
async def test_a_failure_of_what_is_not_open_here_is_looked_up(rig: Rig, action: pb.SettleAction) -> None:
    """Only a reject that comes too late has to be told: after a nack the task goes on in any case, or has ended."""
    worker = await rig.worker(("mail", 2))
    tokens = tokens_of(taken_of(range(2)))
    await worker.settle(action, tokens[:64], delay_ms=70, error="no")
    assert await worker.confirmed() == pb.SettleConfirmed(sequence=5)
    rig.firing.states[taken_of([1]).digests[0]] = State.ACKED
    await worker.settle(action, tokens[64:], error="no")
    confirmed = await worker.confirmed()
    assert list(confirmed.refused) == ([0] if action == REJECT else [])
    assert ("was over before the reject came" in confirmed.problem.message) == (action == REJECT)
    told = [(token.key.digest, failure.delay_ms, failure.hopeless) for token, failure in rig.firing.failed_late]
    digests = taken_of(range(2)).digests
    assert told == [(digests[0], 70, action == REJECT), (digests[1], None, action == REJECT)]


async def test_a_wrong_settle_is_answered_and_the_stream_lives(rig: Rig) -> None:
    worker = await rig.worker(("mail", 2))
    await worker.settle(ACK, b"short")
    assert "64 bytes each" in (await worker.confirmed()).problem.message
    await worker.settle(pb.SETTLE_ACTION_UNSPECIFIED, tokens_of(taken_of([1])))
    assert "ACK, NACK, REJECT or RELEASE" in (await worker.confirmed()).problem.message
    await worker.settle(ACK, bytes(64))
    assert "not made by this service" in (await worker.confirmed()).problem.message
    await worker.settle(ACK, tokens_of(taken_of([1])))
    assert await worker.confirmed() == pb.SettleConfirmed(sequence=5)
    assert [t.key.position_ms for t in rig.firing.late] == [NOW_MS]


async def test_late_acks_are_confirmed_by_message_and_one_stream_waits_for_no_other(rig: Rig) -> None:
    """Streams take turns: one that says thousands holds up neither the loop nor another stream."""
    many, few = await rig.worker(("mail", 2)), await rig.worker(("mail", 2))
    rig.firing.durable.clear()
    taken = taken_of(range(10 * SLICE_TOKENS))
    tokens = tokens_of(taken)
    half = len(tokens) // 2
    for at, part in enumerate((tokens[:half], tokens[half:])):
        await many.settle(ACK, part, sequence=at + 1)
    await rig.settle_down()
    await few.settle(ACK, tokens_of(taken_of([0], prefix=b"another one.")))
    await rig.settle_down()
    under_way = len(rig.firing.late)
    assert under_way <= SLICES_AT_ONCE * SLICE_TOKENS
    rig.firing.durable.set()
    assert (await few.confirmed()).sequence == 5
    assert [(await many.confirmed()).sequence for _ in range(2)] == [1, 2]
    looked_for = [token.key.digest[:12] for token in rig.firing.late]
    assert looked_for.index(b"another one.") < len(taken)
    assert len(looked_for) == len(taken) + 1
    assert max(rig.firing.slices) <= SLICE_TOKENS


async def test_what_a_broken_stream_has_said_late_is_looked_for_no_more(rig: Rig) -> None:
    """By the number of those that are looked for: what is under way when it breaks is the last."""
    worker = await rig.worker(("mail", 2))
    rig.firing.durable.clear()
    await worker.settle(ACK, tokens_of(taken_of(range(10 * SLICE_TOKENS))))
    await rig.settle_down()
    under_way = len(rig.firing.late)
    worker.call.cancel()
    await rig.settle_down()
    rig.firing.durable.set()
    await rig.settle_down()
    assert 0 < under_way <= SLICES_AT_ONCE * SLICE_TOKENS
    assert len(rig.firing.late) == under_way
    assert not rig.delivery._settling.busy


async def test_what_is_acked_is_held_back_until_its_ack_is_answered(rig: Rig) -> None:
    """However slow the store is; and not for who is gone: he says it again."""
    rig.firing.durable.clear()
    worker, gone = await rig.worker(("mail", 2)), await rig.worker(("mail", 2))
    await worker.settle(ACK, tokens_of(taken_of([1])))
    await gone.settle(ACK, tokens_of(taken_of(range(10 * SLICE_TOKENS), prefix=b"another one.")))
    await rig.settle_down()
    assert rig.firing.unanswered.total() == 10 * SLICE_TOKENS + 1
    gone.call.cancel()
    await rig.settle_down()
    assert [*rig.firing.unanswered.elements()] == ids_of(taken_of([1]))
    rig.firing.durable.set()
    await worker.confirmed()
    assert not rig.firing.unanswered.total()


async def test_what_is_dropped_is_let_go_once(rig: Rig) -> None:
    """Also where what was under way of it fails afterwards: it would be held back for ever."""
    rig.firing.durable.clear()
    gone = await rig.worker(("mail", 2))
    await gone.settle(ACK, tokens_of(taken_of(range(10 * SLICE_TOKENS))))
    await rig.settle_down()
    gone.call.cancel()
    await rig.settle_down()
    rig.firing.error = StoreUnavailable("The store is away.", "STORE_UNAVAILABLE")
    rig.firing.durable.set()
    await rig.settle_down()
    assert set(rig.firing.unanswered.values()) == {0}


async def test_a_worker_says_no_more_late_acks_than_are_looked_for_in_a_while(rig: Rig) -> None:
    """What it says beyond that is not read, so it takes no memory."""
    worker = await rig.worker(("mail", 2))
    rig.firing.durable.clear()
    tokens = tokens_of(taken_of(range(1_000)))
    most = STREAM_BYTES[1] // _TOKEN_BYTES + 1_000

    async def write() -> None:
        for n in range(2 * most // 1_000):
            await worker.settle(ACK, tokens, sequence=n + 1)

    writing = asyncio.create_task(write())
    turns = rig.delivery._settling._late._turns
    while (held := sum(len(message.late) for messages in turns.values() for message in messages)) < 10_000:
        await rig.settle_down()
    await rig.settle_down()
    assert held <= most
    rig.firing.durable.set()
    await writing


@pytest.mark.parametrize("state", [State.DEAD, State.CANCELLED, State.EXPIRED, State.PENDING, State.FINISHED])
async def test_an_ack_of_what_ended_otherwise_is_not_confirmed(rig: Rig, state: State) -> None:
    """Late, or while its end was being written; the others of its message are."""
    worker = await rig.worker(("mail", 9))
    late = taken_of(range(3))
    rig.firing.states[late.digests[1]] = state
    await worker.settle(ACK, tokens_of(late))
    confirmed = await worker.confirmed()
    assert (list(confirmed.refused), list(confirmed.states)) == ([1], [int(state)])
    assert (confirmed.problem.reason, "over before the ack came" in confirmed.problem.message) == ("NOT_SETTLED", True)
    rig.firing.put(late)
    await worker.settle(ACK, (await worker.deliver()).ack_tokens)
    confirmed = await worker.confirmed()
    assert (list(confirmed.refused), list(confirmed.states)) == ([1], [int(state)])


async def test_a_reject_of_what_another_attempt_has_acked_is_not_confirmed(rig: Rig) -> None:
    """Nor does a failure take it back, of which nothing is said."""
    worker = await rig.worker(("mail", 9))
    sent = taken_of(range(3))
    rig.firing.states[sent.digests[1]] = State.ACKED
    rig.firing.put(sent)
    tokens = (await worker.deliver()).ack_tokens
    await worker.settle(REJECT, tokens)
    confirmed = await worker.confirmed()
    assert (list(confirmed.refused), list(confirmed.states)) == ([1], [int(State.ACKED)])
    assert "over before the reject came: its task was acknowledged" in confirmed.problem.message


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        (pb.WorkRequest(credit=pb.Credit(queue="q")), "must be `open`"),
        (pb.WorkRequest(open=pb.Open(lease_ms=5)), "use 1000 to 3600000"),
        (pb.WorkRequest(open=pb.Open(namespace="no/slash")), "namespace"),
        (pb.WorkRequest(open=pb.Open(credits=[pb.Credit()])), "queue is missing"),
        (pb.WorkRequest(open=pb.Open(resume=b"x")), "64 bytes each"),
        (pb.WorkRequest(open=pb.Open(worker="w" * 200)), "at most 128"),
    ],
)
async def test_a_wrong_opening_is_refused_with_a_sentence(rig: Rig, request_: pb.WorkRequest, sentence: str) -> None:
    call = rig.stub.Work()
    await call.write(request_)
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await asyncio.wait_for(call.read(), 10)
    assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert sentence in str(refusal.value.details())


@pytest.mark.parametrize("raw", [b"\xff\xff", b"\x0a\x02\xff\xff"])
@pytest.mark.parametrize("opened", [False, True])
async def test_bytes_that_are_no_message_end_the_stream_with_a_sentence(rig: Rig, raw: bytes, opened: bool) -> None:
    call: Any = rig.channel.stream_stream("/timerd.v1.WorkService/Work", None, pb.WorkResponse.FromString)()
    if opened:
        await call.write(pb.WorkRequest(open=pb.Open()).SerializeToString())
        assert (await call.read()).WhichOneof("response") == "opened"
    await call.write(raw)
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await asyncio.wait_for(call.read(), 10)
    assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "no valid timerd.v1.WorkRequest" in str(refusal.value.details())
    await rig.settle_down()
    assert rig.delivery.workers == 0


async def test_a_refusal_is_told_though_something_is_being_written(rig: Rig) -> None:
    """Both requests are there at once, so the answer to the first is on its way when the second is refused."""
    for _ in range(20):
        call = rig.stub.Work(iter([pb.WorkRequest(open=pb.Open())] * 2))
        assert (await asyncio.wait_for(call.read(), 10)).WhichOneof("response") == "opened"
        with pytest.raises(grpc.aio.AioRpcError) as refusal:
            await asyncio.wait_for(call.read(), 10)
        assert "takes credit, settle and extend" in str(refusal.value.details())


async def test_a_lease_that_ends_is_a_failed_attempt(rig: Rig) -> None:
    rig.firing.put(taken_of([1], FLAT))
    worker = await rig.worker(("mail", 2), lease_ms=1_000)
    first = await worker.deliver()
    await rig.advance(900)
    await worker.extend(first.ack_tokens)
    await rig.settle_down()
    await rig.advance(900)
    assert rig.firing.failed == []
    assert rig.alarm.at_ms is not None
    await rig.advance(200)
    assert ["lease ended" in a.last_error for a in rig.firing.failed] == [True]
    lost = pb.Interrupt(ack_tokens=first.ack_tokens, reason=pb.INTERRUPT_REASON_LOST)
    assert (await worker.next()).interrupt == lost
    await worker.extend(first.ack_tokens)
    assert (await worker.next()).extended.lost == first.ack_tokens
    await rig.advance(1_000)
    assert list((await worker.deliver()).attempts) == [2]


async def test_a_worker_that_comes_back_keeps_what_it_holds(rig: Rig) -> None:
    rig.firing.put(taken_of(range(3), FLAT))
    first = await rig.worker(("mail", 3))
    tokens = (await first.deliver()).ack_tokens
    first.call.cancel()
    await rig.settle_down()
    second = await rig.worker(("mail", 5), resume=tokens)
    assert second.opened.lost == b""
    await rig.advance(GRACE_MS + 100)
    assert await second.has_nothing()
    assert rig.firing.failed == []
    await second.settle(ACK, tokens)
    assert (await second.confirmed()).sequence == 5
    assert (len(rig.firing.ended), rig.delivery.in_flight) == (3, 0)
    assert rig.firing.presence == [("mail", True)]


async def test_what_never_reached_a_worker_that_comes_back_is_sent_again_as_it_was(rig: Rig) -> None:
    """On a stream that the server takes for alive: it ends at once."""
    rig.firing.put(taken_of(range(3), FLAT))
    first = await rig.worker(("mail", 5), stream=b"first")
    tokens = (await first.deliver()).ack_tokens
    second = await rig.worker(("mail", 3), resume=tokens[:64], stream=b"second", replaces=[b"first"])
    again = b"".join([(await second.deliver()).ack_tokens for _ in range(2)])
    assert keys_in(again) == keys_in(tokens[64:]), "the same attempts"
    assert set(each_token(again)).isdisjoint(each_token(tokens)), "other deliveries"
    assert rig.firing.failed == []
    assert "another stream" in await first.refusal()
    await rig.settle_down()
    assert rig.delivery.workers == 1
    await rig.advance(GRACE_MS + 100)
    assert await second.has_nothing()
    assert rig.delivery.in_flight == 3


async def test_names_that_are_too_many_or_too_long_are_refused(rig: Rig) -> None:
    for opening in (pb.Open(stream=bytes(65)), pb.Open(replaces=[b"x"] * 17), pb.Open(replaces=[bytes(65)])):
        call = rig.stub.Work()
        await call.write(pb.WorkRequest(open=opening))
        assert "16 random bytes" in await RawWorker(call).refusal()


async def test_what_was_never_written_to_a_worker_that_is_gone_costs_no_attempt(rig: Rig) -> None:
    rig.firing.put(taken_of(range(40), FLAT, payload=bytes(900_000)))
    slow = await rig.worker(("mail", 40))
    await rig.settle_down()
    sent = rig.delivery.in_flight
    slow.call.cancel()
    await rig.settle_down()
    left = rig.delivery.in_flight
    assert left < sent, "what waited for its turn is with nobody"
    other = await rig.worker(("mail", sent - left))
    attempts = [list((await other.deliver()).attempts) for _ in range(sent - left)]
    assert attempts == [[]] * (sent - left), "the first of each"


async def test_what_a_dead_worker_held_goes_to_another_after_the_grace(rig: Rig) -> None:
    rig.firing.put(taken_of(range(3), FLAT))
    first = await rig.worker(("mail", 3))
    lost = await first.deliver()
    second = await rig.worker(("mail", 5))
    first.call.cancel()
    await rig.settle_down()
    assert await second.has_nothing()
    await rig.advance(GRACE_MS)
    again = [await second.deliver() for _ in range(3)]
    assert b"".join(d.delivery_ids for d in again) == lost.delivery_ids
    assert [list(d.attempts) for d in again] == [[2], [2], [2]]


async def test_the_last_worker_that_goes_is_told(rig: Rig) -> None:
    worker = await rig.worker(("mail", 3), ("other", 0))
    await worker.call.done_writing()
    assert await worker.call.read() is grpc.aio.EOF
    await rig.settle_down()
    await rig.advance(GRACE_MS)
    assert sorted(rig.firing.presence) == [("mail", False), ("mail", True), ("other", False), ("other", True)]


async def test_a_worker_that_ends_its_side_gets_what_it_is_owed_and_nothing_new(rig: Rig) -> None:
    rig.firing.put(taken_of(range(2)))
    worker = await rig.worker(("mail", 10))
    tokens = (await worker.deliver()).ack_tokens
    rig.firing.durable.clear()
    await worker.settle(ACK, tokens)
    await worker.call.done_writing()
    await rig.settle_down()
    rig.firing.put(taken_of([7]))
    await rig.settle_down()
    rig.firing.durable.set()
    assert (await worker.confirmed()).sequence == 5
    assert await worker.call.read() is grpc.aio.EOF
    assert rig.delivery.in_flight == 0


async def test_tokens_from_before_a_restart_are_held(rig: Rig) -> None:
    taken = taken_of([1])
    worker = await rig.worker(("mail", 3), resume=tokens_of(taken))
    assert worker.opened.lost == b""
    assert rig.firing.leases == {ids_of(taken)[0]: NOW_MS + 30_000}
    await worker.settle(NACK, tokens_of(taken))
    await worker.confirmed()
    assert rig.firing.leases == {ids_of(taken)[0]: NOW_MS}


async def test_a_full_queue_does_not_delay_another(rig: Rig) -> None:
    """A turn of the loop is as long as what is sent in it, so where others are served each gets a part of a round."""
    rig.firing.put(taken_of(range(100_000), payload=b"x"))
    small = Template("default", "small")
    rig.firing.put(taken_of(range(5), small, prefix=b"another-one."))
    rig.firing.put(taken_of([5], small, prefix=b"another-one.", position_ms=NOW_MS + SOON_MS))
    worker = await rig.worker(("mail", 100_000), ("small", 10))
    seen = 0
    while (deliver := await worker.deliver()).queue != "small":
        seen += len(deliver.fire_at_ms)
    assert seen <= 3 * SHARED_SLICE_TASKS
    # The first message is small: nobody knows yet how large the tasks are.
    assert [len((await worker.deliver()).fire_at_ms) for _ in range(3)] == [SHARED_SLICE_TASKS] * 3


@pytest.mark.parametrize("others", [(), (("small", 10),)])
async def test_a_queue_beside_which_nobody_waits_gets_whole_rounds(
    rig: Rig, others: tuple[tuple[str, int], ...]
) -> None:
    """Also where others have workers, but nothing that falls due soon."""
    rig.firing.put(taken_of(range(5_000), payload=b"x"))
    later_ms = NOW_MS + SOON_MS + 1
    rig.firing.put(taken_of([1], Template("default", "small"), prefix=b"another-one.", position_ms=later_ms))
    worker = await rig.worker(("mail", 5_000), *others)
    sizes = [len((await worker.deliver()).fire_at_ms) for _ in range(4)]
    assert max(sizes) > SHARED_SLICE_TASKS


async def test_what_falls_due_leaves_in_the_step_in_which_the_alarm_rings(rig: Rig) -> None:
    """A turn of a busy loop later would be milliseconds later."""
    worker = await rig.worker(("mail", 10))
    rig.firing.put(taken_of([1], position_ms=NOW_MS + 50))
    await rig.settle_down()
    rig.firing.now_ms = NOW_MS + 50
    rig.alarm.ring()
    assert rig.delivery.in_flight == 1
    assert len((await worker.deliver()).fire_at_ms) == 1


async def test_of_many_after_a_rest_a_few_go_ahead(rig: Rig) -> None:
    """They are in a handler while the rest is made ready."""
    worker = await rig.worker(("mail", 10_000))
    for burst in range(3):
        await rig.advance(1_000)
        rig.firing.put(taken_of(range(1_500), prefix=b"burst-no---%d" % burst))
        sizes = [len((await worker.deliver()).fire_at_ms) for _ in range(3)]
        assert sizes == [FIRST_SLICE_TASKS, 1_000, 500 - FIRST_SLICE_TASKS]


async def test_a_slow_reader_delays_nobody_and_costs_bounded_memory(rig: Rig) -> None:
    rig.firing.put(taken_of(range(400), payload=bytes(100_000)))
    slow = await rig.worker(("mail", 400))
    rig.firing.put(taken_of(range(5), Template("default", "small"), prefix=b"another-one."))
    quick = await rig.worker(("small", 5))
    assert len((await quick.deliver()).fire_at_ms) == 5
    await rig.settle_down()
    # What gRPC itself has taken comes on top.
    most_bytes = STREAM_BYTES[1] + SLICE_BYTES + FIRST_SLICE_TASKS * 100_000
    assert rig.delivery.in_flight * 100_000 < most_bytes + (8 << 20)
    got = 0
    while got < 400:
        got += len((await slow.deliver()).fire_at_ms)
    assert rig.delivery.in_flight == 405


async def test_a_slow_reader_that_is_refused_has_left_before_it_reads_why(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.firing.put(taken_of(range(400), payload=bytes(100_000)))
    slow, left, leave = await rig.worker(("mail", 400)), asyncio.Event(), rig.delivery.left

    def leave_and_tell(stream: Any) -> None:  # noqa: ANN401 - handed on
        leave(stream)
        left.set()

    monkeypatch.setattr(rig.delivery, "left", leave_and_tell)
    await rig.settle_down()
    await slow.call.write(pb.WorkRequest(open=pb.Open()))
    await asyncio.wait_for(left.wait(), 10)
    assert rig.delivery.workers == 0
    assert "takes credit, settle and extend" in await slow.refusal()


async def test_a_drain_says_go_away_and_waits_for_what_is_in_hand(rig: Rig) -> None:
    rig.firing.put(taken_of(range(2)))
    worker = await rig.worker(("mail", 10))
    tokens = (await worker.deliver()).ack_tokens
    draining = asyncio.create_task(rig.delivery.drain(10_000))
    assert (await worker.next()).WhichOneof("response") == "go_away"
    rig.firing.put(taken_of([9]))
    await worker.settle(ACK, tokens[:64])
    assert (await worker.confirmed()).sequence == 5
    assert not draining.done()
    assert [d.lease_until_ms for d in rig.delivery.open_deliveries()] == [NOW_MS + 30_000]
    call = rig.stub.Work()
    await call.write(pb.WorkRequest(open=pb.Open()))
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await asyncio.wait_for(call.read(), 10)
    assert refusal.value.code() == grpc.StatusCode.UNAVAILABLE
    await worker.settle(ACK, tokens[64:])
    await asyncio.wait_for(draining, 10)
    assert rig.delivery.in_flight == 0


async def test_a_drain_ends_with_its_time(rig: Rig) -> None:
    rig.firing.put(taken_of(range(2)))
    worker = await rig.worker(("mail", 10))
    await worker.deliver()
    await rig.delivery.drain(1)
    worker.call.cancel()
    await rig.settle_down()
    await rig.advance(GRACE_MS)
    assert rig.firing.failed == []
    assert len(rig.delivery.open_deliveries()) == 2


async def test_an_error_of_the_engine_costs_a_pause_and_not_the_pump(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker = await rig.worker(("mail", 10))
    with monkeypatch.context() as broken:
        broken.setattr(rig.firing, "take", lambda *_: 1 / 0)
        rig.firing.put(taken_of(range(2)))
        await rig.settle_down()
    assert "a round of delivery failed" in caplog.text
    assert len((await worker.deliver()).fire_at_ms) == 2


async def test_a_retry_that_could_not_be_stored_is_logged(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.firing.put(taken_of([1], FLAT))
    worker = await rig.worker(("mail", 2), lease_ms=1_000)
    await worker.deliver()
    rig.firing.error = StoreUnavailable("The disk is full: free some space.", "STORE_UNAVAILABLE")
    await rig.advance(1_100)
    assert "The disk is full" in caplog.text


async def test_late_flags_and_uneven_payloads(rig: Rig) -> None:
    taken = taken_of(range(3), payload=b"abcdef")
    taken.rows.columns["flags"][1] = FLAG_LATE
    taken.rows.columns["length"] = [6, 2, 0]
    rig.firing.put(taken)
    deliver = await (await rig.worker(("mail", 5))).deliver()
    assert (list(deliver.late), list(deliver.payload_lengths), deliver.payloads) == ([1], [6, 2, 0], b"abcdefab")
