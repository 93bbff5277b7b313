"""What belonging to a cluster costs, and what instances do that cannot reach the store: by the clock alone, without
ports and partitions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

from tests.cluster.crowd import Crowd
from timerd.adapters.memory import MemoryStore
from timerd.core.cluster.membership import Timing
from timerd.model.codec import CAPABILITIES, KEEPS_FIELDS, known_by_all
from timerd.model.instance import InstanceEntry, instance_key
from timerd.model.storage import Cas, CasResult
from timerd.ports import Store
from timerd.services.holding.membership import Member
from timerd.testing import SimClock
from timerd.testing.gate import StoreGate

TIMING = Timing(heartbeat_ms=2_000, ttl_ms=10_000)


@dataclass
class One:
    """A member and what it heard."""

    member: Member
    gate: StoreGate
    lapses: list[int] = field(default_factory=list)
    ousted: list[bool] = field(default_factory=list)
    lived: set[tuple[str, ...]] = field(default_factory=set)


class Members:
    """By one clock."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.clock = SimClock(1_800_000_000_000)
        self.all: dict[str, One] = {}

    async def join(self, name: str, knows: Collection[str] = CAPABILITIES) -> One:
        gate = StoreGate(self.store)
        member = Member(name, cast(Store, gate), self.clock, TIMING, knows=knows)
        one = self.all[name] = One(member, gate)
        member.on_lapse(lambda: one.lapses.append(member.incarnation))
        member.on_oust(lambda: one.ousted.append(True))
        member.on_change(lambda: one.lived.add(member.live()))
        await member.join(f"{name}:1")
        return one

    async def run(self, seconds: int) -> None:
        for _ in range(4 * seconds):
            self.clock.now_ms += 250
            for one in self.all.values():
                await one.member.step()


async def test_after_an_outage_of_the_store_nobody_is_taken_for_dead() -> None:
    """Each has lost its lease, for nobody could confirm it; what it held it takes again, and from nobody else."""
    members = Members()
    a, b = await members.join("a"), await members.join("b")
    await members.run(5)
    for one in (a, b):
        one.gate.cut()
        one.lived.clear()
    before = a.member.incarnation
    await members.run(20)
    assert not a.member.trust.is_trusted(members.clock.boot_ms())
    for one in (a, b):
        one.gate.cut(off=False)
    await members.run(15)
    assert a.member.trust.is_trusted(members.clock.boot_ms())
    assert (a.lapses, len(b.lapses)) == ([before], 1)
    assert a.member.incarnation != before
    assert a.lived | b.lived == set()
    assert a.member.live() == b.member.live() == ("a", "b")


async def test_a_short_outage_costs_no_lease() -> None:
    members = Members()
    a = await members.join("a")
    a.gate.cut()
    await members.run(6)
    a.gate.cut(off=False)
    await members.run(3)
    assert (a.lapses, a.member.trust.is_trusted(members.clock.boot_ms())) == ([], True)


async def test_who_is_cut_off_alone_stops_before_it_is_succeeded() -> None:
    members = Members()
    a, b = await members.join("a"), await members.join("b")
    await members.run(5)
    a.gate.cut()
    for _ in range(60):
        await members.run(1)
        if a.member.trust.is_trusted(members.clock.boot_ms()):
            assert b.member.live() == ("a", "b")
    assert b.member.live() == ("b",)
    a.gate.cut(off=False)
    await members.run(3)
    assert b.member.live() == ("a", "b")


async def test_who_finds_its_name_with_another_owner_ends() -> None:
    members = Members()
    a = await members.join("a")
    stored = (await members.store.read([instance_key("a")]))[0]
    other = InstanceEntry("a", "elsewhere:1", 5, 1)
    await members.store.cas([Cas(instance_key("a"), stored, other.to_bytes())])
    await members.run(3)
    assert (a.ousted, len(a.lapses)) == ([True], 1)


async def test_who_leaves_while_its_sign_of_life_is_late_ousts_nobody() -> None:
    """The late one finds a newer incarnation of the same instance, for the lease was over meanwhile."""
    members = Members()
    a = await members.join("a")
    late = asyncio.Event()
    calls = 0

    async def cas(changes: Sequence[Cas]) -> Sequence[CasResult]:
        nonlocal calls
        calls += 1
        if calls == 1:
            await late.wait()
        return await members.store.cas(changes)

    setattr(a.gate, "cas", cas)  # noqa: B010 - it has every method of the store
    members.clock.now_ms += TIMING.heartbeat_ms
    beating = asyncio.create_task(a.member.step())
    await asyncio.sleep(0)
    members.clock.now_ms += TIMING.ttl_ms
    leaving = asyncio.create_task(a.member.leaving())
    await asyncio.sleep(0)
    late.set()
    await asyncio.gather(beating, leaving)
    assert a.ousted == []


async def test_an_idle_cluster_writes_its_heartbeats_and_nothing_else() -> None:
    """Also while a task waits: an idle partition is only read."""
    async with Crowd() as crowd:
        await crowd.cluster.client("a").schedule("mails", b"later", delay=timedelta(minutes=3))
        await crowd.cluster.advance(seconds=10)
        before = {name: each.gate.cas_calls for name, each in crowd.cluster.instances.items()}
        await crowd.cluster.advance(seconds=60)
        changes = [each.gate.cas_calls - before[name] for name, each in crowd.cluster.instances.items()]
        assert all(28 <= each <= 31 for each in changes), changes


async def test_a_new_form_is_written_once_all_who_live_understand_it() -> None:
    """While the old release lives, and from then on as long as none of it comes back."""
    members = Members()
    old = await members.join("a")
    new = await members.join("b", {*CAPABILITIES, "ordering"})
    await members.run(3)
    assert "ordering" not in known_by_all(new.member.announced())
    assert KEEPS_FIELDS in known_by_all(new.member.announced())
    assert KEEPS_FIELDS in known_by_all(old.member.announced())
    await old.member.left()
    del members.all["a"]
    await members.run(3)
    assert "ordering" in known_by_all(new.member.announced())
    await members.join("a", ("nothing",))
    await members.run(3)
    assert "ordering" not in known_by_all(new.member.announced())
    assert KEEPS_FIELDS not in known_by_all(new.member.announced())


async def test_who_has_left_leaves_an_entry_that_the_release_before_can_read() -> None:
    """That one does not know the field, and refuses an entry with it: a cluster goes back when all have left."""
    members = Members()
    one = await members.join("a")
    await one.member.left()
    [stored] = await members.store.read([instance_key("a")])
    assert stored is not None
    assert set(json.loads(stored)) == {"name", "address", "incarnation", "counter", "state", "beat_at_ms"}


async def test_who_died_is_not_asked_and_who_was_not_seen_yet_is() -> None:
    members = Members()
    new = await members.join("b", {*CAPABILITIES, "ordering"})
    assert "ordering" in known_by_all(new.member.announced())
    await members.join("a")
    await members.run(3)
    assert "ordering" not in known_by_all(new.member.announced())
    del members.all["a"]
    await members.run(15)
    assert "ordering" in known_by_all(new.member.announced())
