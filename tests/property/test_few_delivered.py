"""A message of few rows says what one of many would."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.deliveries import NOW_MS, SECRET, ids_of, taken_of, tokens_of
from timerd.core.dispatch.delivery_machine import Assignment
from timerd.core.dispatch.flights import FEW_ROWS, delivery_ids, each_delivery_id
from timerd.core.taken import Taken
from timerd.model.ack_token import delivery_ids_of, short_ids_of
from timerd.model.identity import delivery_id_of, long_id, short_id
from timerd.model.partition import Partition
from timerd.model.rows import FLAG_CARRIED, FLAG_LATE, RowGroup, concat
from timerd.model.task import Template
from timerd.services.work import deliver_wire
from timerd.services.work.few_delivered import MOST_ROWS, is_few

templates = st.builds(
    Template,
    st.just("default"),
    st.sampled_from(["mail", "größe"]),
    st.integers(0, 9),
    st.sampled_from([(), (("k", "v"), ("l", "w"))]),
    traceparent=st.sampled_from(["", "00-trace"]),
    soft_expire_at_ms=st.sampled_from([0, NOW_MS - 1, NOW_MS, NOW_MS + 1]),
    expire_after_ms=st.sampled_from([0, 0, 800_000]),
    soft_expire_after_ms=st.sampled_from([0, 0, 1, 500_000]),
)
# (position, version, payload, flags, message)
rows = st.tuples(
    st.integers(NOW_MS - 700_000, NOW_MS),
    st.integers(0, 3).map(lambda n: (n // 2) << 16 | n % 2),
    st.binary(max_size=20),
    st.sampled_from([0, FLAG_LATE, FLAG_CARRIED, FLAG_LATE | FLAG_CARRIED]),
    st.integers(0, 2),
)
Row = tuple[int, int, bytes, int, int]
partitions = st.builds(Partition, st.sampled_from([0, 77]), st.just(NOW_MS - NOW_MS % 300_000), st.integers(0, 300))


def taken_with(template: Template, given_rows: list[Row], partition: Partition) -> Taken:
    groups: list[RowGroup] = []
    for at, (position_ms, version, payload, flags, message) in enumerate(given_rows):
        group = taken_of([at], template, position_ms=position_ms, payload=payload, prefix=b"prefix-%05d" % message).rows
        group.columns["version"], group.columns["flags"] = version, flags
        group.columns["fire_at_ms"] = position_ms - at
        groups.append(group)
    joined = concat(groups)
    return Taken.of(partition, 42, joined)


@settings(max_examples=150, deadline=None)
@given(templates, st.lists(rows, min_size=1, max_size=MOST_ROWS), partitions)
def test_it_says_the_same(template: Template, given_rows: list[Row], partition: Partition) -> None:
    assignment = Assignment(1, taken_with(template, given_rows, partition), 30_000, NOW_MS)
    assert is_few(assignment.taken)
    few = list(deliver_wire.deliver_messages(assignment, SECRET))
    with patch.object(deliver_wire, "is_few", lambda _: False), patch("timerd.core.dispatch.flights.FEW_ROWS", 0):
        many = list(deliver_wire.deliver_messages(assignment, SECRET))
    assert few == many


@settings(max_examples=150, deadline=None)
@given(templates, st.lists(rows, min_size=MOST_ROWS + 1, max_size=40), partitions)
def test_some_dozen_say_the_same(template: Template, given_rows: list[Row], partition: Partition) -> None:
    """Of which what is looked up or cut out one by one is lists."""
    assignment = Assignment(1, taken_with(template, given_rows, partition), 30_000, NOW_MS)
    some = list(deliver_wire.deliver_messages(assignment, SECRET))
    with patch.object(deliver_wire, "MANY_ROWS", 0), patch("timerd.model.rows.MANY_PIECES", 0):
        many = list(deliver_wire.deliver_messages(assignment, SECRET))
    assert some == many


@pytest.mark.parametrize("generation", [0, 3])
def test_delivery_ids_are_the_same_however_many(generation: int) -> None:
    for count in (1, FEW_ROWS, FEW_ROWS + 1):
        taken = taken_of(range(count), version=generation << 16 | 1)
        expected = [delivery_id_of(digest, generation << 16) for digest in taken.digests]
        assert each_delivery_id(taken) == expected
        assert delivery_ids(taken) == b"".join(expected)


def test_tokens_are_read_the_same_however_many() -> None:
    """A forged one among them names nothing."""
    tokens = tokens_of(taken_of(range(12), version=2 << 16))
    forged = tokens[:-1] + bytes([tokens[-1] ^ 1])
    expected = [*delivery_ids_of(forged, SECRET, "default")]
    assert (expected[:-1], expected[-1]) == (ids_of(taken_of(range(11), version=2 << 16)), b"")
    for first in range(12):
        for stop in range(first, 13):
            assert delivery_ids_of(forged[first * 64 : stop * 64], SECRET, "default") == expected[first:stop]


@pytest.mark.parametrize("generation", [0, 2])
def test_short_ids_are_those_of_the_tokens_however_many(generation: int) -> None:
    """Of messages that have tasks of the first generation alone, and of others, and a token that is forged."""
    tokens = tokens_of(taken_of(range(12))) + tokens_of(taken_of(range(12), version=generation << 16))
    forged = tokens[:-1] + bytes([tokens[-1] ^ 1])
    for given_tokens in (tokens, forged):
        for count in (1, 9, 12, 24):
            last = given_tokens[-count * 64 :]
            short = short_ids_of(last, SECRET, "default")
            assert [long_id(each) for each in short] == delivery_ids_of(last, SECRET, "default")


def test_each_delivery_id_has_a_short_one_of_its_own() -> None:
    """The first task of a message ends in zeros, as the id of a first generation does."""
    ids = [*ids_of(taken_of(range(3))), *ids_of(taken_of(range(3), version=1 << 16)), b""]
    assert len({short_id(each) for each in ids}) == len(ids)
    assert [long_id(short_id(each)) for each in ids] == ids
    assert [short_id(short_id(each)) for each in ids] == [short_id(each) for each in ids]
