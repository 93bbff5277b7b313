"""What is looked at in the store after each step: each violation beside a neighbour that is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from tests.property.world import done
from tests.simulator.cluster.audit import Audit
from tests.simulator.cluster.replicas import Replicas
from timerd.adapters.memory import MemoryStore
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.registers import Control, control_key
from timerd.model.rows import single_row
from timerd.model.settle import Outcome, SettleRecord, settle_entries
from timerd.model.storage import Append, Appended, Cas
from timerd.model.task import NO_EXTRA, Template

START_MS = 1_800_000_000_000
HERE = Partition(0, START_MS, 0)
KEY = RowKey(START_MS + 5_000, b"d" * 16, 0)


class Room:
    """A store, who looks at it, and what is wrong."""

    def __init__(self) -> None:
        self.disk = MemoryStore()
        self.wrong: list[str] = []
        self.audit = Audit(self.disk, self.wrong.append)

    def write(self) -> None:
        row = single_row(KEY, KEY.position_ms, Template("default", "a"), b"m", NO_EXTRA, 0)
        messages = [Append(((HERE, row),))]
        done(self.disk.append(messages))
        self.audit.written(messages, [Appended({HERE: None})])

    def settle(self) -> None:
        done(self.disk.settle([SettleRecord(HERE, 1, 0, settle_entries([(KEY, Outcome.ACKED)]))]))

    def mark(self, token: int, holder: str, closing_ms: int, verified_ms: int) -> None:
        control = Control(token, holder, "", START_MS + closing_ms, START_MS + verified_ms)
        self.audit.changed([Cas(control_key(HERE), None, control.to_bytes())])


def test_the_mark_passes_only_what_has_ended() -> None:
    for has_ended in (True, False):
        room = Room()
        room.write()
        if has_ended:
            room.settle()
        room.mark(1, "a", 9_000, 5_000)
        assert room.wrong == []
        room.mark(1, "a", 9_000, 5_001)
        assert [sentence[:2] for sentence in room.wrong] == ([] if has_ended else ["I1"])


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ((1, "a", 9_000, 5_000), []),
        ((2, "b", 4_000, 1_000), []),
        ((1, "", 4_000, 1_000), []),
        ((1, "a", 3_000, 1_000), ["I2"]),
        ((1, "a", 4_000, 500), ["I2"]),
        ((1, "a", 4_000, 4_001), ["I2"]),
        ((1, "b", 4_000, 1_000), ["I3"]),
        ((0, "a", 4_000, 1_000), ["I3"]),
    ],
)
def test_marks_and_tokens_only_grow_and_a_token_has_one_holder(
    second: tuple[int, str, int, int], said: list[str]
) -> None:
    room = Room()
    room.mark(1, "a", 4_000, 1_000)
    room.mark(*second)
    assert [sentence[:2] for sentence in room.wrong] == said


def test_what_one_node_has_comes_out_with_a_read_or_with_its_hints_and_once() -> None:
    told: list[Callable[[], object]] = []
    replicas = Replicas(Random(0), lambda _, land: told.append(land), Counter())
    landed: list[int] = []
    replicas.late = 1.0
    replicas.missed([lambda n=n: landed.append(n) for n in range(50)], 0)  # type: ignore[misc]
    assert landed == []
    replicas.read()
    by_a_read = len(landed)
    assert 0 < by_a_read < 50
    for land in told:
        land()
    assert by_a_read < len(landed) == len(set(landed))
    replicas.late = 0.0
    replicas.missed([lambda: landed.append(99)], 0)
    for _ in range(50):
        replicas.read()
    assert sorted(landed) == list(range(50))


def test_what_is_due_has_somebody_once_it_was_seen() -> None:
    room = Room()
    room.write()
    room.audit.held([], ["a"])
    assert room.wrong == []
    room.audit.held([HERE.bucket_ms], ["a"])
    assert [sentence[:3] for sentence in room.wrong] == ["I14"]
    room.mark(1, "a", 0, 0)
    room.audit.held([HERE.bucket_ms], ["a"])
    assert len(room.wrong) == 1
    room.audit.held([HERE.bucket_ms], ["b"])
    assert len(room.wrong) == 2
