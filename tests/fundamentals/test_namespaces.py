"""Nobody reaches a task of another namespace: its ids, tokens and pages are answered as what was never given."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import grpc.aio
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass

from tests.services.raw_worker import ACK, NACK, REJECT, RELEASE, RawWorker
from timerd.client import Client
from timerd.services.calls import dead_letter_purge
from timerd.testing import Server
from timerd.v1 import timer_service_pb2 as api
from timerd.v1 import work_service_pb2 as pb
from timerd.v1.work_service_pb2_grpc import WorkServiceStub
from timerd.worker import Reject

SERVICE = api.DESCRIPTOR.services_by_name["TimerService"]
VERBS = [method for method in SERVICE.methods if method.name != "Session"]


def _that_have(*fields: str) -> list[MethodDescriptor]:
    return [verb for verb in VERBS if any(field in verb.input_type.fields_by_name for field in fields)]


BY_ID = _that_have("task_id", "task_ids")
BY_PAGE = _that_have("page_token")


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield channel


def forged(task_id: str) -> str:
    raw = bytearray(base64.urlsafe_b64decode(task_id + "=" * (-len(task_id) % 4)))
    raw[-1] ^= 1
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def asked_of(verb: MethodDescriptor, server: Server, namespace: str, **fields: object) -> Any:  # noqa: ANN401 - any verb
    """With what the verb needs besides."""
    known = verb.input_type.fields_by_name
    if "task_ids" in known and "task_id" in fields:
        fields["task_ids"] = [fields.pop("task_id")]
    small = {name: 1 for name in ("page_size", "max_scanned") if name in known}
    named = {"request_id": "the same"} if "request_id" in known else {}
    request: Any = GetMessageClass(verb.input_type)(namespace=namespace, **small, **named, **fields)
    if "filter" in known:
        request.filter.start_time.FromDatetime(server.now)
        request.filter.end_time.FromDatetime(server.now + timedelta(hours=2))
    if verb.name == "Reschedule":
        request.fire_time.FromDatetime(server.now + timedelta(hours=2))
    return request


async def answer(channel: grpc.aio.Channel, verb: MethodDescriptor, request: Any) -> object:  # noqa: ANN401 - likewise
    """What is answered: a message, or a refusal."""
    response_type = GetMessageClass(verb.output_type)
    call: Any = channel.unary_unary(
        f"/{SERVICE.full_name}/{verb.name}", type(request).SerializeToString, response_type.FromString
    )
    try:
        return MessageToDict(await call(request))
    except grpc.aio.AioRpcError as refused:
        return refused.code(), refused.details(), str(refused.trailing_metadata())


@dataclass
class Alice:
    """Of the namespace `default`: a task that waits, one that is over, a dead letter."""

    client: Client
    waiting: str
    over: str
    dead: str

    async def states(self) -> list[object]:
        return [await self.client.get(each) for each in (self.waiting, self.over, self.dead)]


@pytest.fixture
async def alice(server: Server, client: Client) -> Alice:
    worker = server.worker()

    @worker.on("q")
    async def done(delivery: Any) -> None:  # noqa: ANN401 - a delivery
        if delivery.payload == b"bad":
            raise Reject("never")

    await worker.start()
    over = await client.schedule("q", b"x", delay=1)
    dead, _ = [await client.schedule("q", b"bad", delay=1) for _ in range(2)]
    await server.advance(seconds=5)
    waiting, _ = [await client.schedule("q", b"x", delay=3600) for _ in range(2)]
    return Alice(client, waiting.id, over.id, dead.id)


@pytest.mark.parametrize("verb", BY_ID, ids=lambda verb: verb.name)
async def test_an_id_of_another_namespace_is_answered_as_one_that_was_never_given(
    verb: MethodDescriptor, server: Server, channel: grpc.aio.Channel, alice: Alice
) -> None:
    before = await alice.states()
    for task_id in (alice.waiting, alice.over, alice.dead):
        said = {}
        for asked in (task_id, forged(task_id)):
            request = asked_of(verb, server, "another", task_id=asked)
            said[asked] = str(await answer(channel, verb, request)).replace(asked, "ID")
        assert said[task_id] == said[forged(task_id)]
        own = str(await answer(channel, verb, asked_of(verb, server, "default", task_id=forged(task_id))))
        assert own.replace(forged(task_id), "ID").replace("default", "another") == said[task_id]
    await server.advance(seconds=30)
    assert await alice.states() == before


@pytest.mark.parametrize("verb", BY_PAGE, ids=lambda verb: verb.name)
async def test_a_page_token_of_another_namespace_is_refused(
    verb: MethodDescriptor,
    server: Server,
    channel: grpc.aio.Channel,
    alice: Alice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dead_letter_purge, "READ_AT_ONCE", 1)
    page = await answer(channel, verb, asked_of(verb, server, "default"))
    assert isinstance(page, dict), page
    asked = asked_of(verb, server, "another", page_token=page["nextPageToken"])
    said = str(await answer(channel, verb, asked))
    assert "INVALID_ARGUMENT" in said
    assert "belongs to another query" in said


class Tokens:
    """Deliveries of `default`: in hand, given back, acknowledged, dead, and one whose lease has ended."""

    def __init__(self, owner: RawWorker, token_of: dict[str, bytes]) -> None:
        self.owner = owner
        self.of = token_of


@pytest.fixture
async def tokens(server: Server, client: Client, channel: grpc.aio.Channel) -> Tokens:
    owner = RawWorker(WorkServiceStub(channel).Work())
    await owner.open(pb.Open(namespace="default", credits=[pb.Credit(queue="mail", tasks=4)], lease_ms=30_000))
    of: dict[str, bytes] = {}
    for name in ("acked", "dead", "waiting", "in hand"):
        await client.schedule("mail", name.encode(), delay=0)
        of[name] = (await owner.deliver()).ack_tokens
    for name, action in (("acked", ACK), ("dead", REJECT)):
        await owner.settle(action, of[name])
        assert not (await owner.confirmed()).refused
    await owner.settle(NACK, of["waiting"], delay_ms=3_600_000)
    assert not (await owner.confirmed()).refused
    return Tokens(owner, of)


@pytest.mark.parametrize("action", [ACK, NACK, REJECT, RELEASE], ids=pb.SettleAction.Name)
async def test_a_token_of_another_namespace_settles_nothing(
    action: pb.SettleAction, server: Server, channel: grpc.aio.Channel, tokens: Tokens
) -> None:
    """It is answered as one that this service never made."""
    theirs = RawWorker(WorkServiceStub(channel).Work())
    await theirs.open(pb.Open(namespace="another", credits=[pb.Credit(queue="mail", tasks=4)]))
    for name, token in tokens.of.items():
        for asked in (token, token[:-1] + bytes([token[-1] ^ 1])):
            await theirs.settle(action, asked, error="not mine")
            confirmed = await theirs.confirmed()
            assert (list(confirmed.refused), "not made by this service" in confirmed.problem.message) == ([0], True), (
                name
            )
    assert server.node.delivery.machine.in_flight == 1
    await tokens.owner.settle(ACK, tokens.of["in hand"])
    assert not (await tokens.owner.confirmed()).refused


async def test_a_token_of_another_namespace_keeps_nothing_in_hand(
    server: Server, channel: grpc.aio.Channel, tokens: Tokens
) -> None:
    """Neither named when a stream is opened, nor extended."""
    every = b"".join(tokens.of.values())
    theirs = RawWorker(WorkServiceStub(channel).Work())
    await theirs.open(pb.Open(namespace="another", credits=[pb.Credit(queue="mail", tasks=4)], resume=every))
    assert theirs.opened.lost == every
    await theirs.extend(every)
    assert (await theirs.next()).extended.lost == every
    [batch] = server.node.delivery.machine._flights.all()
    assert batch.worker != server.node.delivery._next_number
    assert not server.node.delivery.machine.before._named


def test_the_verbs_that_take_ids_or_pages_are_those_that_are_known() -> None:
    """So that the enumeration above cannot come to be of nothing."""
    assert {verb.name for verb in BY_ID} >= {"Get", "Cancel", "CancelBatch", "Reschedule", "FireNow", "Redrive"}
    assert {verb.name for verb in BY_PAGE} >= {"List", "Count", "Purge", "ListDeadLetters"}
