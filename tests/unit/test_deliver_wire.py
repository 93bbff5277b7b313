from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.deliveries import NOW_MS, PLAIN, SECRET, deliver_of, ids_of, taken_of
from timerd.core.dispatch.delivery_machine import Assignment
from timerd.core.taken import Taken
from timerd.model.ack_token import AckToken, is_genuine_token, parse_token
from timerd.model.identity import TaskId, attempt_of, encode_id, is_genuine, parse_task_id
from timerd.model.partition import Partition, bucket_of, scope_of
from timerd.model.rows import RowGroup, concat
from timerd.model.task import Extra, Template
from timerd.services.work.deliver_wire import MESSAGE_BYTES, deliver_messages, tokens_at
from timerd.v1 import work_service_pb2 as pb

OTHER = Template("default", "mail", 4, (("k", "v"),), traceparent="00-trace", soft_expire_at_ms=NOW_MS + 1)
TRACED = Template("default", "mail", traceparent="00-other")
BACKLOG = Partition(scope_of("default", "mail"), bucket_of(NOW_MS), 3)


def task_ids(deliver: pb.Deliver) -> list[TaskId]:
    raw = deliver.task_ids
    parsed = [parse_task_id(encode_id(raw[at : at + 44])) for at in range(0, len(raw), 44)]
    assert all(t is not None and is_genuine(t, SECRET, "default") for t in parsed)
    return [t for t in parsed if t is not None]


def mixed(extras: list[Extra], kinds: list[Template], positions_ms: list[int]) -> Taken:
    """One row for each of `extras`; templates in turn, prefixes by pairs."""
    groups = []
    for at, extra in enumerate(extras):
        prefix = b"prefix-%05d" % (at // 2)
        rows = taken_of(
            [at], kinds[at % len(kinds)], position_ms=positions_ms[at], payload=b"p" * at, prefix=prefix
        ).rows
        rows.columns["version"] = (at % 3) << 16 | (at % 2)
        rows.columns["extra"] = 1 if extra != Extra() else 0
        groups.append(
            RowGroup(rows.columns, rows.prefixes, rows.templates, rows.payloads, [extra] if extra != Extra() else [])
        )
    rows = concat(groups)
    return Taken.of(BACKLOG, 42, rows)


def test_tasks_of_one_message_may_be_silent_and_keep_results_for_as_long_as_each_says() -> None:
    kinds = [PLAIN, replace(PLAIN, stall_timeout_ms=5_000), replace(PLAIN, keep_result_ms=7)]
    deliver = deliver_of(mixed([Extra()] * 3, kinds, [NOW_MS] * 3))
    each = [deliver.templates[kind] for kind in deliver.template_index]
    assert [(one.stall_timeout_ms, one.keep_result_ms) for one in each] == [(0, 0), (5_000, 0), (0, 7)]


def test_ids_and_tokens_say_where_each_task_lives() -> None:
    positions = [NOW_MS - 300_000 * (n % 3) for n in range(9)]
    extras = [Extra(home_position_ms=NOW_MS + 7_000_000, home_shard=5) if n % 4 == 1 else Extra() for n in range(9)]
    taken = mixed(extras, [PLAIN, OTHER], positions)
    deliver = deliver_of(taken)
    tasks = task_ids(deliver)
    assert [t.digest for t in tasks] == list(taken.digests)
    assert [(t.position_ms, t.shard) for t in tasks] == [
        (NOW_MS + 7_000_000, 5) if n % 4 == 1 else (positions[n], 3) for n in range(9)
    ]
    assert {t.scope for t in tasks} == {PLAIN.scope}
    assert [t.priority for t in tasks] == [0, 4] * 4 + [0]
    tokens = [deliver.ack_tokens[at : at + 64] for at in range(0, 9 * 64, 64)]
    assert all(is_genuine_token(t, SECRET, "default") for t in tokens)
    assert not any(is_genuine_token(t, SECRET, "other") for t in tokens)
    assert [parse_token(t) for t in tokens] == [AckToken(BACKLOG, key, 42) for key in taken.rows.keys()]
    assert deliver.delivery_ids == b"".join(ids_of(taken))
    assert list(deliver.attempts) == [attempt_of(v) for v in taken.rows.columns["version"].tolist()]


def test_what_few_tasks_have() -> None:
    extras = [Extra(key="order-1"), Extra(), Extra()]
    taken = mixed(extras, [TRACED, PLAIN, OTHER], [NOW_MS] * 3)
    deliver = deliver_of(taken, NOW_MS + 1)
    assert list(deliver.keys) == ["order-1", "", ""]
    assert list(deliver.traceparents) == ["00-other", "", "00-trace"]
    assert list(deliver.template_index) == [0, 0, 1]
    assert [(dict(t.labels), t.priority, t.fencing_token) for t in deliver.templates] == [
        ({}, 0, 42),
        ({"k": "v"}, 4, 42),
    ]
    assert list(deliver.late) == [2]
    assert (list(deliver.payload_lengths), deliver.payloads) == ([0, 1, 2], b"ppp")


def test_columns_that_say_nothing_are_absent() -> None:
    deliver = deliver_of(taken_of(range(1_000)))
    present = {field.name for field, _ in deliver.ListFields()}
    assert not present & {"attempts", "late", "template_index", "keys", "traceparents"}
    assert list(deliver.payload_lengths) == [7]


@given(st.lists(st.integers(0, MESSAGE_BYTES), min_size=1, max_size=12))
def test_messages_stay_below_the_limit_or_hold_one_task(sizes: list[int]) -> None:
    taken = taken_of(range(len(sizes)))
    arena = bytes(MESSAGE_BYTES)
    taken.rows = RowGroup(taken.rows.columns, taken.rows.prefixes, taken.rows.templates, arena, [])
    taken.rows.columns["length"] = sizes
    taken.rows.columns["offset"] = 0
    messages = list(deliver_messages(Assignment(1, taken, 1, NOW_MS), SECRET))
    counts = [len(m.deliver.fire_at_ms) for m, _ in messages]
    assert sum(counts) == len(sizes)
    assert all(m.ByteSize() <= MESSAGE_BYTES or n == 1 for (m, _), n in zip(messages, counts, strict=True))
    assert all(abs(m.ByteSize() - size) < 200 + 100 * n for (m, size), n in zip(messages, counts, strict=True))
    assert b"".join(m.deliver.delivery_ids for m, _ in messages) == b"".join(ids_of(taken))
    assert sum(len(m.deliver.payloads) for m, _ in messages) == int(np.sum(sizes))


def test_what_each_task_has_of_its_own_counts_for_the_size_of_a_message() -> None:
    """A client of another language takes 4 MiB: labels, traces and keys must not make a message that it cannot read."""
    count = 240
    kinds = [
        Template("default", "mail", labels=tuple((f"{n}-{m}", "ä" * 250) for m in range(32)), traceparent="0" * 55)
        for n in range(count)
    ]
    taken = mixed([Extra(key=f"{n:0500}") for n in range(count)], kinds, [NOW_MS] * count)
    said = list(deliver_messages(Assignment(1, taken, 1_000, NOW_MS), SECRET))
    sizes = [response.ByteSize() for response, _ in said]
    assert max(sizes) <= MESSAGE_BYTES
    assert len(sizes) > 3
    assert [n for response, _ in said for n in response.deliver.keys] == [f"{n:0500}" for n in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 30, 250, 1_000])
@pytest.mark.parametrize("payload", [b"", b"x" * 600])
def test_where_the_tokens_are_is_known_without_a_search(count: int, payload: bytes) -> None:
    """A home cuts them out of the bytes that it forwards."""
    template = Template("default", "m", labels=(("a", "b" * count),), content_type="text/plain")
    mixed_up = mixed([Extra()] * count, [template, PLAIN] * count, [NOW_MS] * count) if count > 2 else None
    taken = mixed_up or taken_of(range(count), template, payload=payload)
    for response, _ in deliver_messages(Assignment(1, taken, 1_000, NOW_MS), SECRET):
        raw, tokens = response.SerializeToString(), response.deliver.ack_tokens
        at = tokens_at(response)
        assert raw[at : at + len(tokens)] == tokens
        assert raw.index(tokens) == at
