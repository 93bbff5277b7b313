"""The tasks of a cycle's members: each is named by the cycle, its number and the member's key, and lives at the moment
of that key. So a task that is made again is the same one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from timerd.core.protocol import Call, Forgotten, Procedure, place_message
from timerd.core.schedules.world import KEPT_MS, TOGETHER, World, in_time
from timerd.core.slots import SPACE, hash_of, hashes_of, scaled, slot_of
from timerd.model.cycles import PLACE_LABEL, CycleShape
from timerd.model.identity import MAC_BYTES, TaskId
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of, shard_of
from timerd.model.rows import FLAG_LATE, PREFIX, ROW, RowGroup
from timerd.model.schedules import prefix_of
from timerd.model.storage import Append
from timerd.model.task import Template

# Into so many parts a slot is cut by when its tasks expire.
EXPIRIES = 64
Moments = npt.NDArray[np.int64]


def is_of_slot(shape: CycleShape, slot: int, key: str, place: int = 0) -> bool:
    return slot_of(hash_of(key), shape.slots) == shape.slots_back(slot, place)


class SlotMember(NamedTuple):
    """`payload`: what its task has. `weight`: what a turn of it costs, beside those of others."""

    key: str
    payload: bytes
    weight: float = 1.0


class CycleRun(NamedTuple):
    """Of whose members the tasks are: which uid its name has, how it is cut, and the number of its turn. `places`: the
    hashes of members that are elsewhere than their key says in this cycle, and in the next one. `place`: which kind of
    turn it is."""

    uid: str
    shape: CycleShape
    number: int
    places: Mapping[str, int] = MappingProxyType({})
    next_places: Mapping[str, int] = MappingProxyType({})
    place: int = 0

    @property
    def begin_ms(self) -> int:
        return self.shape.origin_ms + self.number * self.shape.period_ms

    def hash_at(self, key: str) -> int:
        """The one that counts."""
        return self.places.get(key) or hash_of(key)

    def slot_at(self, key: str) -> int:
        """In which it has its turn."""
        return self.shape.slots_on(slot_of(self.hash_at(key), self.shape.slots), self.place)

    def moment_ms(self, key: str) -> int:
        within_ms = self.hash_at(key) * self.shape.period_ms // SPACE
        return self.begin_ms + (within_ms + self.shape.place_ms(self.place)) % self.shape.period_ms

    def moments_ms(self, keys: Sequence[str]) -> Moments:
        return self.begin_ms + self._within_ms(_hashes(keys, self.places))

    def next_ms(self, keys: Sequence[str]) -> Moments:
        """Of the cycle after it."""
        return self.begin_ms + self.shape.period_ms + self._within_ms(_hashes(keys, self.next_places))

    def _within_ms(self, hashes: npt.NDArray[np.uint64]) -> Moments:
        within: Moments = scaled(hashes, self.shape.period_ms) + self.shape.place_ms(self.place)
        return within % self.shape.period_ms

    def prefix(self, key: str) -> bytes:
        """That of the first place is what it would be without any."""
        turn = f"{self.number}/{self.place}" if self.place else self.number
        return prefix_of("member", self.uid, turn, key)

    @property
    def template(self) -> Template:
        """Of its tasks, which tell the place by its name."""
        members = self.shape.members
        if not self.shape.places:
            return members
        return replace(members, labels=(*members.labels, (PLACE_LABEL, self.shape.places[self.place])))

    def shard(self, prefix: bytes, bucket_ms: int) -> int:
        return shard_of(prefix, bucket_ms, self.shape.shards)


def _hashes(keys: Sequence[str], places: Mapping[str, int]) -> npt.NDArray[np.uint64]:
    hashes = hashes_of(keys)
    if places:
        for n, key in enumerate(keys):
            if key in places:
                hashes[n] = places[key]
    return hashes


def member_task(cycle: CycleRun, key: str) -> TaskId:
    """Whether or not there is one. Without its MAC, which is for callers."""
    prefix, at_ms = cycle.prefix(key), cycle.moment_ms(key)
    template, shard = cycle.shape.members, cycle.shard(prefix, bucket_of(at_ms))
    return TaskId(at_ms, shard, template.scope, template.priority, prefix, 0, bytes(MAC_BYTES))


def member_rows(cycle: CycleRun, members: Sequence[SlotMember], now_ms: int) -> dict[Partition, RowGroup]:
    """Each at its moment."""
    keys = [member.key for member in members]
    moments_ms = cycle.moments_ms(keys)
    prefixes = [cycle.prefix(member.key) for member in members]
    rows = _columns(members, moments_ms, now_ms)
    parts, rows["template"] = np.unique(_expiries_ms(cycle, keys, moments_ms), return_inverse=True)
    template = cycle.template
    templates = [replace(template, expire_at_ms=int(at_ms)) for at_ms in parts]
    arena = b"".join([member.payload for member in members])
    whole = RowGroup(rows, np.frombuffer(b"".join(prefixes), PREFIX), templates, arena, [])
    places: dict[Partition, list[int]] = {}
    for n, at_ms in enumerate(moments_ms.tolist()):
        bucket_ms = bucket_of(at_ms)
        places.setdefault(Partition(TIME_SCOPE, bucket_ms, cycle.shard(prefixes[n], bucket_ms)), []).append(n)
    return {place: whole.select(np.array(chosen, np.intp)).compact() for place, chosen in places.items()}


def _columns(members: Sequence[SlotMember], moments_ms: Moments, now_ms: int) -> npt.NDArray[np.void]:
    rows = np.zeros(len(members), ROW)
    rows["position_ms"] = rows["fire_at_ms"] = moments_ms
    rows["prefix"] = np.arange(len(members))
    rows["length"] = [len(member.payload) for member in members]
    rows["offset"] = np.cumsum(rows["length"]) - rows["length"]
    rows["flags"] = np.where(moments_ms < now_ms, FLAG_LATE, 0)
    return rows


def _expiries_ms(cycle: CycleRun, keys: Sequence[str], moments_ms: Moments) -> Moments:
    """When its member has the next turn, so that it never waits twice; or up to a 64th of a slot before."""
    shape = cycle.shape
    step_ms, is_same = max(1, shape.slot_ms // EXPIRIES), cycle.places == cycle.next_places
    next_ms = moments_ms + shape.period_ms if is_same else cycle.next_ms(keys)
    expiries: Moments = shape.origin_ms + (next_ms - shape.origin_ms) // step_ms * step_ms
    return np.maximum(expiries, moments_ms + 1)


def place_together(groups: Mapping[Partition, RowGroup], world: World) -> Procedure[None]:
    """Raises MissedPlace, where some row is too late for its place: then each is to be placed by itself. Raises
    Forgotten and NotTakenIn."""
    now_ms = world.now_ms()
    call = Call(TOGETHER, now_ms, now_ms + KEPT_MS, world.retention_ms, may_be_withdrawn=True)
    yield from in_time(Append(tuple(groups.items())), call)


def place_one(place: Partition, row: RowGroup, world: World) -> Procedure[None]:
    """As a repeat: one that was met as fired, ended or withdrawn stays so. One whose end is not kept any longer counts
    as ended."""
    now_ms = world.now_ms()
    prefix = row.digests()[0][: PREFIX.itemsize]
    try:
        yield from place_message(
            Append(((place, row),)), Call(prefix, now_ms, now_ms + KEPT_MS, world.retention_ms, may_be_withdrawn=True)
        )
    except Forgotten:
        return
