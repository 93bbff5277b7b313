"""A namespace in which the relay has no role waits by itself; the rows of all others go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tests.outbox.made import cancel, move, schedule
from tests.outbox.relaying import DAY_MS, TIMEOUT_S, drained, now_ms, running
from tests.process.waiting import eventually
from tests.services.access_rig import proof, write
from timerd.client import Client, NotFound
from timerd.config import AuthConfig, ServerConfig, TlsConfig
from timerd.outbox.elsewhere import BatchesElsewhere
from timerd.outbox.held_up import HeldUp
from timerd.outbox.in_hand import BatchesInHand
from timerd.outbox.ports import OutboxStore
from timerd.outbox.relay import MOST_IN_HAND
from timerd.outbox.rows import OutboxRow, SealedBatch
from timerd.outbox.sealing import batch_of
from timerd.outbox.sending import GrpcSending
from timerd.sdk.transport import ConnectOptions
from timerd.sdk.values.errors import make_error
from timerd.testing import Server

TOKEN, ALL = "t-relay", "t-all"
BILLING = "billing"


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
    # Each is a batch by itself, for they have one key: more of them than a relay has in hand.
    rounds = 2 * MOST_IN_HAND
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
        [(namespace, sealed)] = relay.held_up.items()
        assert namespace == BILLING
        assert 0 < sealed < rounds
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
        assert relay.held_up == {}
    assert "'billing' goes on" in caplog.text
    assert await outbox.refused(10) == []


def test_what_only_passes_holds_up_no_namespace() -> None:
    held = HeldUp()
    assert not held.heard("shop", make_error("UNAVAILABLE", "Away.", "", 0, ""))
    assert not held.heard("shop", None)
    missing = make_error("PERMISSION_DENIED", "No role.", "ROLE_MISSING", 0, "")
    assert held.heard("shop", missing)
    assert not held.heard("shop", missing)
    assert not held.heard("shop", make_error("UNAVAILABLE", "Away.", "", 0, ""))
    assert held.names() == ["shop"]
    assert held.heard("shop", None)
    assert held.names() == []


async def test_a_namespace_that_is_free_again_is_not_waited_for() -> None:
    held = HeldUp()
    held.heard("shop", make_error("PERMISSION_DENIED", "No role.", "ROLE_MISSING", 0, ""))
    resting = asyncio.create_task(held.rest("shop", 3600.0))
    await asyncio.sleep(0)
    held.heard("shop", None)
    await resting


async def test_batches_wait_for_lower_ones_with_one_of_their_keys() -> None:
    hand, never = BatchesInHand(), asyncio.Event()
    rows = {1: ["a", "b"], 2: ["c"], 3: ["b", "c"], 4: ["d"], 5: []}
    tasks: dict[int, Any] = {no: asyncio.create_task(never.wait()) for no in rows}
    for no, keys in rows.items():
        made = [schedule(b"x", key) for key in keys] or [schedule(b"x")]
        hand.add(batch_of("0b5e", no, 1, made), tasks[no])
    hand.add(batch_of("0b5e", 6, 1, [cancel("a", namespace="shop")]), tasks[5])
    assert [hand.before(no) for no in (1, 2, 4, 5, 6)] == [[]] * 5
    assert hand.before(3) == [tasks[1], tasks[2]]
    assert (hand.count(), hand.count(without=["default"])) == (6, 1)
    assert hand.tasks() == {"default": 7, "shop": 1}
    never.set()
    await asyncio.gather(*tasks.values())


async def test_the_keys_of_other_relays_are_read_once() -> None:
    there = {no: batch_of("0b5e", no, 1, [schedule(b"x", key)]) for no, key in {1: "a", 2: "b", 3: "c"}.items()}
    read: list[int] = []

    async def reading(numbers: Sequence[int]) -> list[SealedBatch]:
        read.extend(numbers)
        return [there[no] for no in numbers if no in there]

    elsewhere, mine = BatchesElsewhere(reading), batch_of("0b5e", 9, 1, [schedule(b"x", "c")])
    assert await elsewhere.hold_up(mine, {"c"}, [1, 2, 3])
    assert not await elsewhere.hold_up(mine, {"d"}, [1, 2, 3])
    assert not await elsewhere.hold_up(mine, {"c"}, [2])
    assert read == [1, 2, 3]
    # It was there a moment ago, and may be two halves by now.
    assert await elsewhere.hold_up(mine, {"c"}, [2, 5])
    assert not await elsewhere.hold_up(mine, {"c"}, [])
