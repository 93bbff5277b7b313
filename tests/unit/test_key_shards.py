"""Ordering keys in a cluster: one instance keeps each key shard, and sends of it what it knows to be the first."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.ordering_rig import ordered
from tests.unit.partition_rig import HERE, MAIL, NOW_MS, QUEUE, key, page
from timerd.core.cluster import holder_of
from timerd.core.instance_machine import shards_of
from timerd.core.ordering import KeptShards, KeyGate, OrderedRows, OrderKeys
from timerd.core.ordering.kept_shards import NOTHING_MS
from timerd.core.partition import ChangeControl, HoldingSettings, Memory, PartitionMachine
from timerd.core.partition.carry import guard_carry, in_place
from timerd.model.identity import RowKey
from timerd.model.key_shards import NOBODY, ShardKeeper
from timerd.model.ordering import OnFailure, key_shards_of, numbered, ordered_extra
from timerd.model.partition import BUCKET_MS, FIRST_KEY_SHARD, KEY_SHARDS, TIME_SCOPE, Partition, key_shard_of
from timerd.model.rows import RowGroup, concat, single_row
from timerd.model.settle import CarryReason, Outcome
from timerd.model.storage import BucketEntry, CasStatus
from timerd.model.store_traits import StoreTraits
from timerd.model.task import NO_EXTRA
from timerd.services.engine.placing import by_key_shard
from timerd.services.holding.held import Machines
from timerd.services.holding.read_through import ReadThrough

SHARD = FIRST_KEY_SHARD + 3
AT = HERE._replace(shard=SHARD)
KEEPER = NOBODY.taken_by("a", 7)
NAMES = ("a", "b", "c")


def test_each_key_has_a_shard_of_its_own_and_no_task_without_one_is_there() -> None:
    shards = {key_shard_of("default", "docs", f"doc-{n}") for n in range(1_000)}
    assert shards == set(range(FIRST_KEY_SHARD, FIRST_KEY_SHARD + KEY_SHARDS))
    plain = single_row(key(3), key(3).position_ms, MAIL, b"body", NO_EXTRA, 0)
    rows = concat([ordered(key(1), key(2, 2_000)), plain])
    of_keys = key_shards_of(rows)
    groups = by_key_shard(rows, {HERE.bucket_ms: 2}, of_keys)
    assert of_keys == dict.fromkeys((0, 1), key_shard_of(MAIL.namespace, MAIL.queue, "a"))
    assert [(partition.shard, len(part)) for partition, part in groups] == [(of_keys[0], 2), (2, 1)]


def test_a_key_shard_is_placed_with_one_instance_whatever_the_bucket() -> None:
    holders = {holder_of(Partition(scope, n * BUCKET_MS, SHARD), NAMES) for n in range(50) for scope in (0, 77)}
    assert len(holders) == 1
    spread = {holder_of(Partition(TIME_SCOPE, 0, FIRST_KEY_SHARD + n), NAMES) for n in range(KEY_SHARDS)}
    assert spread == set(NAMES)


def test_the_catalogue_names_key_shards_one_by_one() -> None:
    entry = BucketEntry(TIME_SCOPE, 0, 1, finishing=False, finished=False)
    entry = entry.with_shard(SHARD).with_shard(1).with_shard(FIRST_KEY_SHARD)
    assert [each.shard for each in shards_of(entry)] == [0, 1, FIRST_KEY_SHARD, SHARD]
    assert entry.last_shard == SHARD


def test_rows_of_a_cluster_need_an_instance_that_knows_key_shards() -> None:
    alone = numbered(ordered_extra("a"), 5, in_cluster=False)
    assert alone == replace(ordered_extra("a"), order_base=5)
    assert numbered(ordered_extra("a"), 5, in_cluster=True).kept == '{"needs":["key_shards","ordering_key"]}'


def test_only_a_look_that_began_when_the_register_was_taken_counts() -> None:
    kept = KeptShards()
    kept.begin_look(1_000)
    kept.taken(SHARD, KEEPER)
    kept.looked()
    assert kept.known_ms(SHARD) == NOTHING_MS
    kept.begin_look(2_000)
    assert kept.known_ms(SHARD) == NOTHING_MS
    kept.looked()
    assert (kept.known_ms(SHARD), kept.known_ms(SHARD + 1)) == (2_000, NOTHING_MS)
    kept.lapse()
    assert kept.known_ms(SHARD) == NOTHING_MS


def test_nothing_starts_before_the_leases_are_over_that_the_last_keeper_has_left() -> None:
    kept = KeptShards()
    kept.taken(SHARD, KEEPER.left(5_000, 4_000).taken_by("b", 8))
    kept.begin_look(4_999)
    kept.looked()
    assert kept.known_ms(SHARD) == NOTHING_MS
    kept.begin_look(5_000)
    kept.looked()
    assert kept.known_ms(SHARD) == 5_000


def test_the_register_is_read_as_it_was_written_and_keeps_what_a_later_release_adds() -> None:
    stored = KEEPER.to_bytes()
    assert ShardKeeper.from_bytes(stored) == KEEPER
    later = stored[:-1] + b',"later":1}'
    assert ShardKeeper.from_bytes(later).left(1, 2).to_bytes().endswith(b',"later":1}')


class Looks:
    """What a keeper knows, and the partitions that it holds."""

    def __init__(self) -> None:
        self.machines = Machines()
        self.kept = KeptShards()
        self.kept.taken(SHARD, KEEPER)
        self.read_through = ReadThrough(self.machines, lambda _: False, self.kept, lambda _: False)

    def look(self, now_ms: int, *buckets_ms: int) -> None:
        of_bucket = [BucketEntry(TIME_SCOPE, ms, 1, finishing=False, finished=False) for ms in buckets_ms]
        entries = [entry.with_shard(SHARD) for entry in of_bucket]
        self.read_through.begin_look(now_ms)
        self.read_through.looked(entries, {}, [MAIL.scope])

    def known_ms(self) -> int:
        return self.read_through.known_ms(QUEUE, AT)


def test_a_partition_that_another_instance_holds_keeps_back_all_that_comes_after_it() -> None:
    looks = Looks()
    looks.look(9 * BUCKET_MS)
    assert looks.known_ms() == 9 * BUCKET_MS
    looks.look(9 * BUCKET_MS, 2 * BUCKET_MS, 3 * BUCKET_MS)
    assert looks.known_ms() == 2 * BUCKET_MS


def test_nothing_starts_before_it_is_known_what_is_in_hand_of_the_last_buckets() -> None:
    """Also of one behind the row: it may have come late, while a task of its key was started by another keeper."""
    looks = Looks()
    looks.look(9 * BUCKET_MS, 7 * BUCKET_MS)
    assert looks.known_ms() == NOTHING_MS
    looks.look(9 * BUCKET_MS, 6 * BUCKET_MS)
    assert looks.known_ms() == 6 * BUCKET_MS
    looks.look(9 * BUCKET_MS, 10 * BUCKET_MS)
    assert looks.known_ms() == 9 * BUCKET_MS
    looks.look(9 * BUCKET_MS, 9 * BUCKET_MS)
    assert looks.known_ms() == NOTHING_MS


def keeper(*rows: RowGroup) -> tuple[Looks, PartitionMachine]:
    """Of the shard, which holds the one partition of it."""
    looks, memory = Looks(), Memory(1 << 30)
    machine = PartitionMachine(AT, HoldingSettings("a", traits=StoreTraits(has_cursors=True)), memory)
    machine.start()
    [taken] = machine.control_read(None, NOW_MS)
    assert isinstance(taken, ChangeControl)
    machine.control_changed(CasStatus.APPLIED, NOW_MS)
    machine.settled_read([], NOW_MS)
    machine.page_read(page(*rows), NOW_MS)
    looks.machines[AT] = machine
    memory.order_keys.kept_shards = looks.kept
    return looks, machine


def sent(looks: Looks, machine: PartitionMachine, now_ms: int) -> list[RowKey]:
    keys = machine.ordered.order_keys
    gate = KeyGate(keys, lambda _: machine.ordered, looks.read_through.known_ms, lambda: 0)
    found = machine.take(QUEUE, 10, now_ms, gates=[gate])
    return found.rows.keys() if found is not None else []


def closes(machine: PartitionMachine, now_ms: int) -> None:
    """`closing` is raised, THEN what is below it is read."""
    [change] = [each for each in machine.tick(now_ms) if isinstance(each, ChangeControl)]
    assert change.value.closing_ms == now_ms
    machine.control_changed(CasStatus.APPLIED, now_ms)
    machine.page_read(page(), now_ms)


def test_a_task_is_sent_when_closing_has_passed_it_and_the_catalogue_was_read_since() -> None:
    looks, machine = keeper(ordered(key(1)))
    looks.look(NOW_MS, AT.bucket_ms)
    assert sent(looks, machine, NOW_MS) == [], "another instance may have written what comes before"
    closes(machine, NOW_MS + 100)
    assert sent(looks, machine, NOW_MS + 100) == [key(1)]


def test_a_look_from_before_the_row_was_met_does_not_count() -> None:
    looks, machine = keeper()
    looks.look(NOW_MS, AT.bucket_ms)
    machine.hint(ordered(key(1)), 1)
    sent(looks, machine, NOW_MS)
    closes(machine, NOW_MS + 100)
    assert sent(looks, machine, NOW_MS + 100) == []
    looks.look(NOW_MS + 100, AT.bucket_ms)
    assert sent(looks, machine, NOW_MS + 200) == [key(1)]


def test_who_does_not_keep_the_shard_sends_nothing_of_it() -> None:
    looks, machine = keeper(ordered(key(1)))
    looks.look(NOW_MS, AT.bucket_ms)
    sent(looks, machine, NOW_MS)
    closes(machine, NOW_MS + 100)
    looks.kept.left(SHARD)
    assert sent(looks, machine, NOW_MS + 100) == []


def test_fences_grow_with_each_start_and_with_each_keeper() -> None:
    keys = OrderKeys()
    rows = OrderedRows(AT, keys, lambda *_: None, lambda _: False)
    rows.file(ordered(key(1), key(2, 2_000)))
    first, second = (rows.find(key(1)), rows.find(key(2, 2_000)))
    assert first is not None
    assert second is not None
    keys.begin_after(NOW_MS + 5_000)
    keys.start(second, NOW_MS)
    keys.start(first, NOW_MS)
    assert keys.fences[second.key.digest].position_ms > NOW_MS + 5_000
    assert keys.fences[second.key.digest] < keys.fences[first.key.digest]


def test_a_key_waits_for_a_worker_whose_task_another_instance_has_ended() -> None:
    keys = OrderKeys()
    rows = OrderedRows(AT, keys, lambda *_: None, lambda _: False)
    rows.file(ordered(key(1), key(2, 2_000)))
    filed, behind = rows.find(key(1)), rows.find(key(2, 2_000))
    assert filed is not None
    assert behind is not None
    rows.remove(filed)
    keys.start(filed, NOW_MS)
    keys.asks(lambda _: NOW_MS + 9_000)
    keys.end([(key(1), Outcome.ACKED)])
    assert not keys.is_next(behind)
    rows.drop_all()
    assert keys.kept_shards.owed_ms(SHARD) == NOW_MS + 9_000


def test_what_a_worker_has_at_a_hand_over_is_not_sent_before_its_lease_is_over() -> None:
    rows = ordered(key(1))
    carry = guard_carry(AT, key(1), NOW_MS + 9_000, NOW_MS, CarryReason.HAND_OVER, was_sent=True)
    placed = in_place(rows, 0, AT, carry, lambda _: OnFailure.HOLD)
    assert (placed.target, placed.position_ms, placed.not_before_ms) == (AT, key(1).position_ms, NOW_MS + 9_000)


def test_what_a_worker_has_by_its_row_goes_before_a_task_that_came_late_and_stands_before_it() -> None:
    """Of a row that the last holder left with its lease, or that was carried at the lag limit."""
    keys = OrderKeys()
    rows = OrderedRows(AT, keys, lambda *_: None, lambda _: False)
    started = ordered(key(2))
    started.extras = [replace(extra, lease_until_ms=NOW_MS + 9_000) for extra in started.extras]
    rows.file(ordered(key(1)))
    rows.file(started, NOW_MS + 9_000)
    late, first = rows.find(key(1)), rows.find(key(2))
    assert late is not None
    assert first is not None
    assert (keys.is_next(late), keys.is_next(first)) == (False, True)
    rows.over([key(2)])
    assert not keys.is_next(late), "its end is not durable"
    keys.end([(key(2), Outcome.ACKED)])
    assert keys.is_next(late)
