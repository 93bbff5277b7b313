"""Procedures that run side by side: what they ask of one kind is one request, and each hears what it would hear
alone."""

from __future__ import annotations

import asyncio

import pytest

from timerd.core.protocol import (
    AskToMove,
    AskToMoveMany,
    HintRows,
    Procedure,
    ReadRegister,
    ReadRegisters,
    Request,
    SetMarks,
    TryCas,
    TryCasMany,
)
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.identity import RowKey
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.registers import RegisterKey, name_key
from timerd.model.storage import Cas, CasResult, CasStatus
from timerd.services.holding.driving_many import drive_all, drive_many

KEYS = [name_key("default", f"k{n}") for n in range(5)]


class Registers:
    """In memory. `asked`: each request. What is asked of `bad` fails with that error."""

    def __init__(self) -> None:
        self.values: dict[RegisterKey, bytes] = {}
        self.asked: list[Request] = []
        self.bad: dict[RegisterKey, Exception] = {}

    async def perform(self, request: Request) -> object:
        self.asked.append(request)
        await asyncio.sleep(0)
        match request:
            case ReadRegister(key):
                return self._read(key)
            case ReadRegisters(keys):
                return [self._read(key) for key in keys]
            case TryCas(change):
                return self._change(change)
            case TryCasMany(changes):
                return [self._change(change) for change in changes]
        raise TypeError(request)

    def _read(self, key: RegisterKey) -> bytes | None:
        if key in self.bad:
            raise self.bad[key]
        return self.values.get(key)

    def _change(self, change: Cas) -> CasResult:
        self.values[change.key] = change.value
        return CasResult(CasStatus.APPLIED)


def written(key: RegisterKey) -> Procedure[bytes]:
    """What is there, or what is written where nothing is; then once more what is there."""
    found: bytes | None = yield ReadRegister(key)
    if found is None:
        yield TryCas(Cas(key, None, b"new"))
    again: bytes | None = yield ReadRegister(key)
    return (again or b"") + b"!"


async def test_what_is_asked_at_one_time_is_one_request() -> None:
    store = Registers()
    assert await drive_all([written(key) for key in KEYS], store) == [b"new!"] * 5
    assert [type(each) for each in store.asked] == [ReadRegisters, TryCasMany, ReadRegisters]


async def test_each_takes_its_own_steps() -> None:
    store = Registers()
    store.values = {KEYS[1]: b"old", KEYS[3]: b"old"}
    said = await drive_all([written(key) for key in KEYS], store)
    assert said == [b"new!", b"old!", b"new!", b"old!", b"new!"]
    assert [each for each in store.asked if type(each) in (ReadRegister, TryCas)] == []


async def test_one_that_is_at_fault_fails_alone() -> None:
    store, fault = Registers(), ValueError("cannot be read")
    store.bad[KEYS[2]] = fault
    said = await drive_many([written(key) for key in KEYS], store)
    assert said == [b"new!", b"new!", fault, b"new!", b"new!"]
    with pytest.raises(ValueError, match="cannot be read"):
        await drive_all([written(key) for key in KEYS], store)


async def test_a_store_that_goes_away_after_a_write_leaves_the_outcome_unknown() -> None:
    store, away = Registers(), StoreUnavailable("away", "STORE_UNAVAILABLE")
    store.values[KEYS[0]] = b"old"

    def both(key: RegisterKey) -> Procedure[bytes]:
        said = yield from written(key)
        store.bad = dict.fromkeys(KEYS, away)
        yield ReadRegister(key)
        return said

    old, new = await drive_many([both(key) for key in KEYS[:2]], store)
    assert old is away
    assert isinstance(new, StoreUnknown)


async def test_a_request_that_goes_with_no_other_is_asked_by_each() -> None:
    class Marks(Registers):
        async def perform(self, request: Request) -> object:
            self.asked.append(request)
            return 1

    def marked(key: RegisterKey) -> Procedure[object]:
        return (yield SetMarks([]) if key == KEYS[0] else ReadRegister(key))

    store = Marks()
    assert await drive_all([marked(key) for key in KEYS[:2]], store) == [1, 1]
    assert len(store.asked) == 2


async def test_others_have_their_turns_while_many_hear_their_answers() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    try:
        await drive_all([written(name_key("default", f"k{n}")) for n in range(1_000)], Registers())
    finally:
        beside.cancel()
    assert turns > 40


async def test_of_none_nothing_is_asked() -> None:
    assert await drive_many([], Registers()) == []


class Holders:
    """Answers what holders are asked. `asked`: each request."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    async def perform(self, request: Request) -> object:
        self.asked.append(request)
        await asyncio.sleep(0)
        if isinstance(request, AskToMoveMany):
            return [each.key for each in request.requests]
        return request.key if isinstance(request, AskToMove) else None


def asked_of(partition: Partition, number: int) -> Procedure[object]:
    """As a move does: its row is hinted, then its holder is asked."""
    key = RowKey(partition.bucket_ms + number, b"%d" % number, 0)
    yield HintRows([(partition, number, 0)], {partition: b""})  # type: ignore[list-item]
    answer: object = yield AskToMove(partition, key)
    return answer == key


async def test_nobody_waits_for_the_holder_of_another_partition() -> None:
    near, far = (Partition(TIME_SCOPE, bucket_ms, 0) for bucket_ms in (0, 300_000))
    holders = Holders()
    assert await drive_many([asked_of(each, n) for each in (near, far) for n in range(3)], holders) == [True] * 6
    hints, *asks = holders.asked
    assert isinstance(hints, HintRows)
    assert len(hints.rows) == 6
    assert [{each.partition for each in ask.requests} for ask in asks if isinstance(ask, AskToMoveMany)] == [
        {near},
        {far},
    ]
