"""Bytes as the next release writes them: what this one does not know is kept, written back, or left alone."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.partition_rig import (
    HERE,
    NOW_MS,
    START_MS,
    acquired,
    hot,
    key,
    mark_applied,
    only,
    page,
    rows,
    taken,
)
from timerd.core.ledger import Ledger
from timerd.core.partition.effects import WriteCarried, WriteSettled
from timerd.core.partition.holding import Asked
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.taken import Again, Ended, QueueKey
from timerd.model import codec
from timerd.model.codec import KEEPS_FIELDS, known_by_all
from timerd.model.errors import CorruptRow, NotUnderstood
from timerd.model.instance import InstanceEntry, InstanceState
from timerd.model.registers import Control, KeyEntry, Move, MoveState
from timerd.model.rows import FLAG_CARRIED, FLAG_LATE, FLAG_MOVED_IN, FLAGS_OF_TASK, RowGroup, concat
from timerd.model.settle import Carry, CarryReason, Outcome
from timerd.model.shard_counts import ShardCounts
from timerd.model.storage import DeadLetter, Mark, MarkKind
from timerd.model.task import Extra, RetryPolicy, Template
from timerd.peer.v1 import peer_service_pb2 as pb
from timerd.services.peers.peer_wire import answers_of, hints_of

# Two rows of one message, each with a flag that is new; templates, policies and extras have fields that are new.
GROUP = bytes.fromhex(
    "02000000020000002a0100005b5b7b226e616d657370616365223a2264656661756c74222c227175657565223a226d61696c73222c226c"
    "6162656c73223a5b5b226f66222c22696d706f7274225d5d2c227265747279223a7b226d61785f617474656d707473223a332c22696e69"
    "7469616c5f6261636b6f66665f6d73223a313030302c226d756c7469706c696572223a322e302c226d61785f6261636b6f66665f6d7322"
    "3a333630303030302c226a6974746572223a302e312c22617474656d70745f74696d656f75745f6d73223a333630303030302c22737472"
    "6174656779223a226576656e227d2c226f72646572696e675f6b6579223a2278222c226c696d697473223a7b22706f6f6c223a5b226122"
    "2c325d7d7d5d2c5b7b226b6579223a226b222c226f726967696e223a22c3bc227d5d5d7070707070707070707070707070707070707070"
    "707070704400505c18a3010000010000000040010000004001000000000040010000000104800114"
)
NEW_IN_TEMPLATE = '{"ordering_key":"x","limits":{"pool":["a",2]}}'
NEW_FLAG = 16
MAILS = QueueKey("default", "mails")
SOURCE = b'[[0,1800000000000,0],1800000000001,"%b",0]' % (b"70" * 16)
TARGET = b'[[0,1800000300000,0],1800000300001,"%b",256]' % (b"70" * 16)
# Values that are compared byte for byte when they are changed.
REGISTERS: dict[str, tuple[bytes, Callable[[bytes], Any]]] = {
    "control": (
        b'{"token":5,"holder":"a","address":"a:1","closing_ms":9,"verified_ms":8,"finished_at_ms":0,"inserted":0,'
        b'"counts":[[1,2]],"incarnation":7,"hands":{"on":["b"]},"weight":1.5}',
        Control.from_bytes,
    ),
    "control of nobody": (
        b'{"token":5,"holder":"","address":"","closing_ms":9,"verified_ms":8,"finished_at_ms":0,"inserted":0,'
        b'"counts":[],"successor":"b","weight":null}',
        Control.from_bytes,
    ),
    "move": (
        b'{"generation":1,"state":1,"source":%b,"target":%b,"request":"r","latest_ms":3,"fire_at_ms":2,'
        b'"expires_at_ms":4,"by":"\xc3\xbc"}' % (SOURCE, TARGET),
        Move.from_bytes,
    ),
    "key": (b'{"task_id":"AQAA","active":true,"replaces":["AQAB"],"series":{"n":3}}', KeyEntry.from_bytes),
    "free key": (b'{"task_id":"AQAA","active":false,"series":{"n":3}}', KeyEntry.from_bytes),
    "instance": (
        b'{"name":"a","address":"a:1","incarnation":7,"counter":3,"state":"serving","beat_at_ms":9,'
        b'"knows":["keeps_fields","ordering"],"zone":"b"}',
        InstanceEntry.from_bytes,
    ),
    "instance from before": (
        b'{"name":"a","address":"a:1","incarnation":7,"counter":3,"state":"left","beat_at_ms":9}',
        InstanceEntry.from_bytes,
    ),
    "hot buckets": (b'{"1800000000000":[2,8],"reason":"hot"}', lambda stored: ShardCounts.from_bytes(1, stored)),
}


@pytest.mark.parametrize("name", REGISTERS)
def test_a_register_is_written_back_byte_for_byte(name: str) -> None:
    """Else a compare-and-set against what was read would be refused for ever."""
    stored, read = REGISTERS[name]
    assert read(stored).to_bytes() == stored


def test_what_changes_in_a_register_leaves_the_unknown_fields() -> None:
    control = Control.from_bytes(REGISTERS["control"][0])
    assert json.loads(control.released("b", 9, ()).to_bytes())["hands"] == {"on": ["b"]}
    move = Move.from_bytes(REGISTERS["move"][0])
    assert json.loads(move.decided(MoveState.MOVED).to_bytes())["by"] == "ü"
    counts = ShardCounts.from_bytes(1, REGISTERS["hot buckets"][0])
    more = counts.with_more(1_800_000_000_000, 16, 0)
    assert more is not None
    assert json.loads(more.to_bytes()) == {"1800000000000": [2, 8, 16], "reason": "hot"}


@pytest.mark.parametrize("addition", [b'"needs":["ordering"]', b'"v":2'], ids=["needs", "version"])
@pytest.mark.parametrize("name", ["control", "move", "key"])
def test_a_register_that_is_not_understood_is_left_alone(name: str, addition: bytes) -> None:
    stored, read = REGISTERS[name]
    with pytest.raises(NotUnderstood, match=r"ordering|version 2"):
        read(stored[:-1] + b"," + addition + b"}")


def test_what_is_no_control_row_at_all_is_damage() -> None:
    with pytest.raises(CorruptRow):
        Control.from_bytes(b'{"token":5}')


def test_a_partition_whose_control_row_was_read_keeps_what_it_does_not_know() -> None:
    stored = replace(Control.from_bytes(REGISTERS["control"][0]), closing_ms=START_MS, verified_ms=START_MS)
    machine, _ = acquired(stored)
    assert machine.control is not None
    assert machine.control.kept == stored.kept != ""


# -- rows ----------------------------------------------------------------------------------------------------------


def group() -> RowGroup:
    return RowGroup.unpack(GROUP, b"bodybody")


def test_a_group_is_written_back_byte_for_byte() -> None:
    assert group().pack_keys() == GROUP
    assert group().templates[0].kept == NEW_IN_TEMPLATE
    assert group().lacking_rows() == {}


def written_after_a_failure(machine: PartitionMachine) -> list[RowGroup]:
    """What the machine writes when the only attempt of each row has failed, as it is read again."""
    found = machine.take(MAILS, 10, NOW_MS)
    assert found is not None
    machine.again([Again(HERE, each, NOW_MS + 1, NOW_MS, "it broke") for each in found.rows.keys()])
    [settled] = only(machine.flush(), WriteSettled)
    assert isinstance(settled, WriteSettled)
    writes = only(machine.settled_written(settled.record), WriteCarried)
    groups = [group for write in writes if isinstance(write, WriteCarried) for _, group in write.groups]
    return [RowGroup.unpack(group.pack_keys(), group.payloads) for group in groups]


def test_a_retry_writes_the_unknown_fields_again() -> None:
    """Also of the row that had no notes of its own."""
    groups = written_after_a_failure(hot(group()))
    assert sum(map(len, groups)) == 2
    for written in groups:
        assert written.templates[0].kept == NEW_IN_TEMPLATE
        assert written.templates[0].retry.kept == '{"strategy":"even"}'
        assert set(written.columns["flags"].tolist()) == {NEW_FLAG | FLAG_LATE | FLAG_CARRIED}
    kept = {extra.key: extra.kept for written in groups for extra in written.extras}
    assert kept == {"": "", "k": '{"origin":"ü"}'}


def needing(**fields: object) -> RowGroup:
    """The second of two rows at one instant needs something."""
    found = concat([rows(key(0)), rows(key(1))])
    columns = found.columns.copy()
    columns["extra"] = [0, 1]
    extra = Extra.from_json({"key": "k", **fields})
    return replace(found, columns=columns, extras=[extra])


@pytest.mark.parametrize("fields", [{"needs": ["ordering"]}, {"v": 2}], ids=["needs", "version"])
def test_a_row_that_is_not_understood_stays_and_holds_the_mark(fields: dict[str, object]) -> None:
    machine = hot(needing(**fields))
    assert taken(machine) == [key(0)]
    machine.end([Ended(HERE, key(0), Outcome.ACKED)])
    [settled] = only(machine.flush(), WriteSettled)
    assert isinstance(settled, WriteSettled)
    machine.settled_written(settled.record)
    assert machine.foreign_rows == 1
    mark_applied(machine, NOW_MS)
    machine.page_read(page(), NOW_MS)
    assert machine._sweep.scanned_ms > key(1).position_ms
    assert machine.verifiable_ms() == key(1).position_ms
    assert machine.ask(key(1)) == (Asked.WAITING, None)


def test_a_row_by_hint_is_looked_at_as_one_of_a_page() -> None:
    machine = hot()
    machine.hint(needing(needs=["ordering"]), 0)
    assert taken(machine) == [key(0)]
    assert machine.lacks == {"ordering"}


def test_one_template_of_many_is_looked_at_where_a_part_of_their_message_comes() -> None:
    """A part with fewer rows than the message has templates."""
    templates = [Template("default", "mail", traceparent=f"{n}") for n in range(5)]
    templates[3] = Template.from_json(templates[3].to_json() | {"needs": ["ordering"]})
    found = concat([rows(key(n)) for n in range(5)])
    columns = found.columns.copy()
    columns["template"] = range(5)
    whole = replace(found, columns=columns, templates=templates)
    assert whole.lacking_rows() == {3: {"ordering"}}
    assert whole.select(slice(3, 4)).lacking_rows() == {0: {"ordering"}}
    assert whole.select(slice(0, 2)).lacking_rows() == {}


def test_a_row_that_is_understood_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "CAPABILITIES", codec.CAPABILITIES | {"ordering"})
    assert sorted(taken(hot(needing(needs=["ordering"])))) == sorted([key(0), key(1)])


def test_a_row_with_a_mark_of_an_unknown_kind_stays() -> None:
    machine, _ = acquired()
    marks = [Mark(HERE, key(1), MarkKind(200), b"")]
    machine.page_read(page(rows(key(0), key(1)), marks=marks), NOW_MS)
    assert taken(machine) == [key(0)]
    assert machine.lacks == {"mark 200"}


def test_an_unknown_end_is_an_end() -> None:
    outcome = Outcome(99)
    ledger = Ledger()
    ledger.add_open(Counter({outcome: 3}))
    assert ledger.named()["carried"] == 3
    with pytest.raises(ValueError, match="no Outcome"):
        Outcome("acked")  # type: ignore[arg-type]


def test_a_group_of_another_layout_is_not_guessed_at() -> None:
    notes = b'[[{"namespace":"d","queue":"q"}],[],{"packing":2}]'
    with pytest.raises(NotUnderstood):
        RowGroup.unpack(struct.pack("<III", 0, 0, len(notes)) + notes, b"")


def test_hints_of_another_layout_are_left_to_the_sweep() -> None:
    notes = b'[[{"namespace":"d","queue":"q"}],[],{"packing":2}]'
    other = pb.Rows(keys=struct.pack("<III", 0, 0, len(notes)) + notes)
    known = pb.Rows(keys=GROUP, payloads=b"bodybody", source=7)
    [hinted] = hints_of(pb.HintRequest(rows=[other, known]))
    assert (hinted.rows.pack_keys(), hinted.source) == (GROUP, 7)


def test_a_template_of_a_later_version_is_known_by_its_queue_alone() -> None:
    stored = {"namespace": "d", "queue": "q", "v": 2, "labels": {"of": 1}, "retry": [1, 2]}
    template = Template.from_json(stored)
    assert (template.namespace, template.queue, template.labels) == ("d", "q", ())
    assert template.retry == RetryPolicy()
    assert template.lacks == {"version 2"}
    assert template.to_json() == stored


def test_a_carry_says_what_it_needs() -> None:
    stored = json.loads(Carry(key(0), CarryReason.RETRY, HERE, 1, 1).to_json())
    assert Carry.from_json(stored | {"because": "of that"}) == Carry.from_json(stored)
    with pytest.raises(NotUnderstood, match="ordering"):
        Carry.from_json(stored | {"needs": ["ordering"]})


def test_a_dead_letter_keeps_the_unknown_fields_of_its_row() -> None:
    [template], [extra] = group().templates, group().extras
    letter = DeadLetter(b"id", key(0), HERE, template, 1, 2, 3, "it broke", b"", "k", extra.kept)
    read = DeadLetter.from_facts(b"id", 2, letter.facts(), b"")
    assert read == letter
    assert read.template.kept == NEW_IN_TEMPLATE


def test_a_flag_that_says_something_of_the_task_goes_where_it_goes() -> None:
    assert not FLAGS_OF_TASK & (FLAG_CARRIED | FLAG_LATE | FLAG_MOVED_IN)
    assert NEW_FLAG & FLAGS_OF_TASK


# -- instances -----------------------------------------------------------------------------------------------------


def test_an_unknown_state_of_an_instance_gets_nothing_new() -> None:
    stored = REGISTERS["instance"][0].replace(b"serving", b"resting")
    assert InstanceEntry.from_bytes(stored).state is InstanceState.LEAVING


def test_an_answer_of_an_unknown_kind_counts_as_none() -> None:
    [answer] = answers_of([pb.Answer(known=77, outcome=99)])  # type: ignore[arg-type]
    assert answer.asked is Asked.SILENT


def test_a_new_form_is_written_when_all_who_live_understand_it() -> None:
    """The rule, with a capability that is made up."""
    new = {KEEPS_FIELDS, "ordering"}
    assert known_by_all({"a": new}) == new
    assert known_by_all({"a": new, "b": ("ordering",), "c": (KEEPS_FIELDS,)}) == set()
    assert "ordering" not in known_by_all({"a": new, "b": ()})
