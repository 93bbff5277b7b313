"""What the server does not take for now waits by itself: a namespace without a role or over its quota, a queue that is
shut. The rows of all others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.outbox.made import cancel, move, schedule
from tests.outbox.relaying import DAY_MS, TIMEOUT_S, drained, now_ms, running
from tests.process.waiting import eventually
from tests.services.access_rig import proof, write
from timerd.client import Client, NotFound
from timerd.config import AuthConfig, ServerConfig, TlsConfig
from timerd.outbox.held_up import HeldUp
from timerd.outbox.opening import open_outbox
from timerd.outbox.outcomes import Next, SendOutcome
from timerd.outbox.ports import OutboxStore
from timerd.outbox.relay import Relay
from timerd.outbox.rows import OutboxRow, SealedBatch
from timerd.outbox.sealing import MOST_OF_KEY, NUMBER_STEP, LeftOut, batch_of
from timerd.outbox.sending import GrpcSending
from timerd.sdk.transport import ConnectOptions
from timerd.sdk.values.errors import make_error
from timerd.testing import Server

TOKEN, ALL = "t-relay", "t-all"
BILLING = "billing"
QUOTAS = """
[billing]
tasks_per_s = 1
burst_s = 3
"""


def allow(principals: Path, *roles: str) -> None:
    write(principals, f"relay {','.join(roles)} {proof(TOKEN)}\nall schedule,inspect {proof(ALL)}\n")


@pytest.fixture
def principals(tmp_path: Path) -> Path:
    path = tmp_path / "principals"
    path.touch()
    allow(path, "schedule@default")
    return path


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def server(principals: Path, authority: Authority) -> AsyncIterator[Server]:
    pair = authority.sign("server", "DNS:localhost", "IP:127.0.0.1")
    tls = TlsConfig(certificate_file=pair.certificate, key_file=pair.key)
    auth = AuthConfig(principals_file=principals)
    config = ServerConfig(listen="127.0.0.1:0", synchronous="normal", tls=tls, auth=auth)
    async with Server(start=datetime.now(UTC), config=config) as server:
        yield server


@pytest.fixture
async def sending(server: Server, authority: Authority) -> AsyncIterator[GrpcSending]:
    sending = GrpcSending(ConnectOptions(server.address, ca_file=authority.certificate, token=TOKEN), TIMEOUT_S)
    yield sending
    await sending.close()


def reader(server: Server, authority: Authority, namespace: str) -> Client:
    return Client(server.address, ca_file=authority.certificate, token=ALL, namespace=namespace)


async def test_a_missing_role_holds_up_its_namespace_alone(
    outbox: OutboxStore,
    server: Server,
    sending: GrpcSending,
    principals: Path,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
) -> None:
    at_ms = now_ms(server) + DAY_MS
    # More rows of one key than a batch has.
    rounds = MOST_OF_KEY
    waiting: list[OutboxRow] = [
        each
        for n in range(rounds)
        for each in (
            schedule(b"%d" % n, "a", fire_at_ms=at_ms, namespace=BILLING),
            move("a", at_ms + n, namespace=BILLING),
            cancel("a", namespace=BILLING),
        )
    ]
    await outbox.put([*waiting[:-1], schedule(b"plain", fire_at_ms=at_ms), schedule(b"1", "a", fire_at_ms=at_ms)])
    await outbox.put([schedule(b"last", namespace=BILLING, fire_at_ms=at_ms), move("a", at_ms + 7)])
    async with running(outbox, sending) as relay, reader(server, authority, "default") as ours:

        async def is_moved() -> bool:
            try:
                return (await ours.get(key="a")).fire_at_ms == at_ms + 7
            except NotFound:
                return False

        await eventually(is_moved, "rows of the other namespace go on")
        assert sorted([task.payload async for task in ours.list(include_payload=True)]) == [b"1", b"plain"]
        assert {each.names for each in relay.held_up} == {frozenset({(BILLING, "")})}
        assert {each.reason for each in relay.held_up} == {"ROLE_MISSING"}
        assert 0 < sum(each.tasks for each in relay.held_up) < len(waiting)
        assert "'billing' is held up, and no other: relay may not call" in caplog.text
        async with reader(server, authority, BILLING) as billing:
            assert [task async for task in billing.list()] == []
            allow(principals, "schedule@default", f"schedule@{BILLING}")
            await drained(outbox)
            assert (await billing.get(key="a")).fire_at_ms == at_ms + rounds - 1
            assert sorted([task.payload async for task in billing.list(include_payload=True)]) == [
                b"%d" % (rounds - 1),
                b"last",
            ]
        assert relay.held_up == []
    assert "'billing' goes on" in caplog.text
    assert await outbox.refused(10) == []


def batch(no: int, *rows: OutboxRow) -> SealedBatch:
    return batch_of("0b5e", no, 1, list(rows) or [schedule(b"x")])


def said(code: str, reason: str, *shut: str) -> SendOutcome:
    return SendOutcome(Next.AGAIN, why=make_error(code, "No.", reason, 0, ""), shut=frozenset(shut))


TAKEN, AWAY = SendOutcome(Next.DONE), said("UNAVAILABLE", "")
NO_ROLE, OVER_QUOTA = said("PERMISSION_DENIED", "ROLE_MISSING"), said("RESOURCE_EXHAUSTED", "QUOTA")
SHUT = said("FAILED_PRECONDITION", "QUEUE_SHUT", "mails")


def test_what_only_passes_holds_up_nothing() -> None:
    held = HeldUp()
    assert not held.heard(batch(1), AWAY)
    assert not held.heard(batch(1), said("RESOURCE_EXHAUSTED", "INGEST_BUDGET"))
    assert not held.heard(batch(1), TAKEN)
    assert held.left_out() == LeftOut()


@pytest.mark.parametrize(
    ("outcome", "left_out"),
    [
        (NO_ROLE, LeftOut(frozenset({"default"}))),
        (OVER_QUOTA, LeftOut(frozenset({"default"}))),
        (SHUT, LeftOut(queues=frozenset({("default", "mails")}))),
    ],
)
def test_a_name_is_held_up_while_a_batch_waits_for_it(outcome: SendOutcome, left_out: LeftOut) -> None:
    held = HeldUp()
    assert held.heard(batch(1), outcome) == held.names() != frozenset()
    assert not held.heard(batch(2), outcome)
    assert not held.heard(batch(1), AWAY)
    assert not held.heard(batch(1), TAKEN)
    assert held.left_out() == left_out
    assert held.heard(batch(2), TAKEN)
    assert held.left_out() == LeftOut()


@pytest.mark.parametrize("outcome", [NO_ROLE, SHUT])
async def test_what_was_held_up_is_sent_again_when_one_of_it_is_taken(outcome: SendOutcome) -> None:
    held = HeldUp()
    held.heard(batch(1), outcome)
    held.heard(batch(2), outcome)
    resting = asyncio.create_task(held.rest(1, 3600.0))
    await asyncio.sleep(0)
    held.heard(batch(2), TAKEN)
    await resting


@pytest.fixture
async def plain() -> AsyncIterator[Server]:
    async with Server(start=datetime.now(UTC)) as server:
        yield server


async def test_rows_of_a_queue_that_is_shut_wait_and_hold_up_no_others(
    outbox: OutboxStore, plain: Server, caplog: pytest.LogCaptureFixture
) -> None:
    at_ms, client = now_ms(plain) + DAY_MS, plain.client()
    await client.queues.drain("mails", note="use post")
    await outbox.put([schedule(b"1", fire_at_ms=at_ms), schedule(b"2", "a", fire_at_ms=at_ms), cancel("a")])
    await outbox.put([schedule(b"3", "b", fire_at_ms=at_ms), move("b", at_ms + 5)])
    await outbox.put([schedule(b"4", "c", fire_at_ms=at_ms, queue="post"), move("c", at_ms + 7)])
    sending = GrpcSending(plain.connect_options, TIMEOUT_S)
    async with running(outbox, sending) as relay:

        async def others_are_done() -> bool:
            facts = await outbox.facts()
            return sorted(each.tasks for each in facts.sealed) == [1, 4] and all(each.why for each in facts.sealed)

        await eventually(others_are_done, "what is left waits")
        assert (await client.get(key="c")).fire_at_ms == at_ms + 7
        # Also what comes later: it is not even sealed.
        await outbox.put([schedule(b"5", fire_at_ms=at_ms), schedule(b"6", "d", fire_at_ms=at_ms, queue="post")])
        await eventually(lambda: _has(client, "d"), "another queue goes on")
        assert (await outbox.facts()).rows == 1
        assert {(each.names, each.reason) for each in relay.held_up} == {
            (frozenset({("default", "mails")}), "QUEUE_SHUT")
        }
        assert "The queue 'mails' of the namespace 'default' is held up, and no other" in caplog.text
        assert await outbox.refused(10) == []
        await client.queues.resume("mails")
        await drained(outbox)
        assert relay.held_up == []
    found = [(task.payload, task.fire_at_ms) async for task in client.list(queue="mails", include_payload=True)]
    assert sorted(found) == [(b"1", at_ms), (b"3", at_ms + 5), (b"5", at_ms)]
    assert await outbox.refused(10) == []
    await sending.close()


async def _has(client: Client, key: str) -> bool:
    try:
        await client.get(key=key)
    except NotFound:
        return False
    return True


async def test_another_relay_knows_the_keys_that_wait(outbox: OutboxStore, url: str, plain: Server) -> None:
    """The one that has the batch may be gone."""
    at_ms, client = now_ms(plain) + DAY_MS, plain.client()
    await client.queues.stop("mails")
    await outbox.put([schedule(b"1", "a", fire_at_ms=at_ms)])
    sending, other = GrpcSending(plain.connect_options, TIMEOUT_S), open_outbox(url)
    async with running(outbox, sending) as relay:
        await eventually(lambda: _waits(relay), "the batch waits")
        await outbox.put([move("a", at_ms + 5), schedule(b"2", "b", fire_at_ms=at_ms, queue="post")])
        async with running(other, sending):
            await eventually(lambda: _has(client, "b"), "what has another key goes on")
            await client.queues.resume("mails")
            await drained(outbox)
    assert (await client.get(key="a")).fire_at_ms == at_ms + 5
    assert await outbox.refused(10) == []
    await other.close()
    await sending.close()


async def _waits(relay: Relay) -> bool:
    return bool(relay.held_up)


async def test_a_batch_that_earlier_releases_sealed_of_two_queues_is_parted(outbox: OutboxStore, plain: Server) -> None:
    at_ms, client = now_ms(plain) + DAY_MS, plain.client()
    await client.queues.drain("mails")
    sending = GrpcSending(plain.connect_options, TIMEOUT_S)
    rows = [schedule(b"1", "a", fire_at_ms=at_ms), schedule(b"2", "b", fire_at_ms=at_ms, queue="post")]
    mixed = batch_of("0b5e", NUMBER_STEP, now_ms(plain), rows)
    said_first = await sending.send(mixed)
    assert (said_first.next, said_first.left, said_first.refused) == (Next.REST, rows[:1], [])
    # The answer was lost, and the queue is open again: this request is not taken in any further.
    await client.queues.resume("mails")
    said_then = await sending.send(mixed)
    assert (said_then.next, said_then.left) == (Next.REST, rows[:1])
    assert said_then.why is not None
    assert said_then.why.reason == "REFUSED_BEFORE"
    await sending.close()


async def test_a_namespace_over_its_quota_waits_and_holds_up_no_other(outbox: OutboxStore, tmp_path: Path) -> None:
    quotas = tmp_path / "quotas.toml"
    quotas.write_text(QUOTAS)
    config = ServerConfig(listen="127.0.0.1:0", synchronous="normal", quotas_file=quotas)
    async with Server(start=datetime.now(UTC), config=config) as server:
        at_ms = now_ms(server) + DAY_MS
        await outbox.put([schedule(b"%d" % n, namespace=BILLING, fire_at_ms=at_ms) for n in range(3)])
        sending = GrpcSending(server.connect_options, TIMEOUT_S)
        async with running(outbox, sending) as relay:
            await drained(outbox)
            await outbox.put([schedule(b"4", namespace=BILLING, fire_at_ms=at_ms), schedule(b"5", fire_at_ms=at_ms)])
            await eventually(lambda: _waits(relay), "there is no room for another one")
            assert [({*each.names}, each.reason) for each in relay.held_up] == [({(BILLING, "")}, "QUOTA")]
            await server.advance(seconds=60)
            await drained(outbox)
        assert await outbox.refused(10) == []
        await sending.close()
