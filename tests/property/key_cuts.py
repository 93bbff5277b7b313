"""The rows of one partition of which memory holds a few, and a judge: each is in one place, a short key has none in the
store, and of a key nothing is sent past what is left there."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np

from tests.unit.partition_rig import HERE, QUEUE, START_MS, rows
from tests.unit.tight_memory import Tight
from timerd.core.partition.row_table import RowTable
from timerd.core.taken import AckedRows
from timerd.model.identity import RowKey
from timerd.model.rows import ROW, RowGroup, concat
from timerd.model.settle import Outcome
from timerd.model.task import Template

LATER_MS = START_MS + 1_000_000
ROW_BYTES = ROW.itemsize + len(b"body")
KEYS = ("long", "other", "", "short")
TEMPLATES = {name: Template(*QUEUE, limit_key=name) for name in KEYS}


class Hand:
    """The rows of one partition, of which memory holds so many. `stored`: what was written, by commit."""

    def __init__(self, most_rows: int) -> None:
        self.memory = Tight(most_rows * ROW_BYTES)
        self.table = RowTable(HERE, self.memory, 1, 0)
        self.rows = self.table._rows
        self.stored: list[RowGroup] = []
        self.names: dict[RowKey, str] = {}
        self.sent: list[RowKey] = []
        self.met: set[RowKey] = set()
        self.over: set[RowKey] = set()
        self.said: set[RowKey] = set()
        self.open: list[list[RowKey]] = []

    def write(self, names: dict[RowKey, str], *, told: bool) -> None:
        """`told`: by a hint, which the reload may have to leave to the next sweep."""
        group = concat([rows_of(name, each) for each, name in names.items()])
        group.source = len(self.stored) + 1
        self.stored.append(group)
        self.names |= names
        if told and len(hinted := self.table.besides_reload(group)):
            self.table.hint(hinted, group.source, may_repeat=False)
            self.met |= set(hinted.keys())

    def sweep(self) -> None:
        for group in self.stored[self.table.cursor :]:
            self.rows.merge(group)
            self.rows.met.read(group.source)
            self.met |= set(group.keys())

    def send(self, most: int) -> None:
        while self.table.file_due(QUEUE, 5, LATER_MS):
            pass
        turn = self.memory.limit_keys.turn(QUEUE, 0)
        picks = turn.pick(most)
        for chunk, row in picks:
            found = self.table.take_filed(chunk.rows.select(np.array([row])), LATER_MS)
            for each in found.rows.keys() if found is not None else ():
                self.judge_order(each)
                self.sent.append(each)
                self.open.append([each])
        turn.taken(Counter(chunk.limit_key(row) for chunk, row in picks))
        turn.end()

    def sent_of(self, name: str) -> None:
        """All that memory has of a key is sent and acked."""
        while self.table.file_due(QUEUE, 5, LATER_MS):
            pass
        line = self.memory.limit_keys._turns[QUEUE].lines[name]
        while (head := line.head()) is not None:
            chunk, row = head
            chunk.remove(row)
            line.rows -= 1
            found = self.table.take_filed(chunk.rows.select(np.array([row])), LATER_MS)
            assert found is not None
            self.sent += found.rows.keys()
            self.open.append(found.rows.keys())
            self.ack()

    def ack(self) -> None:
        if self.open:
            keys = self.open.pop(0)
            part = AckedRows(HERE, [k.position_ms for k in keys], [k.digest for k in keys], [k.version for k in keys])
            assert self.table.end_acked([part]) == ([part], [])
            self.over |= set(keys)

    def cancel(self, chance: random.Random) -> None:
        waiting = [each for each in self.names if each not in self.sent and each not in self.over]
        if waiting:
            each = chance.choice(waiting)
            assert self.table.ask(each, START_MS, LATER_MS)[1] is None
            self.table.cancel_all([each], Outcome.CANCELLED, b"")
            self.table.end_all([each], Outcome.CANCELLED, b"")
            self.said.add(each)
            self.over.add(each)

    def in_memory(self) -> set[RowKey]:
        groups = [*self.rows.waiting.sample(QUEUE, 1), *self.rows.keyed.groups()]
        found = [each for group in groups for each in group.keys()]
        assert len(found) == len(set(found)), "a row is there twice"
        return set(found)

    def left(self) -> set[RowKey]:
        """What was met, is not over and with nobody, and not in memory."""
        return self.met - self.over - set(self.sent) - self.in_memory()

    def judge_order(self, each: RowKey) -> None:
        """Unless they are just being brought back."""
        name, reload = self.names[each], self.rows.left.reload
        comes = set(reload.keys) if reload is not None else set()
        earlier = [other for other in self.left() if self.names[other] == name and other.position_ms < each.position_ms]
        assert not earlier or name in comes or (reload is not None and not reload.keys), (each, earlier)

    def judge(self) -> None:
        left = self.left()
        assert not [each for each in left if self.names[each] == "short"], "a short key is in the store"
        oldest_ms = self.rows.oldest_ms()
        unsent = self.met - self.over
        assert not unsent or (oldest_ms is not None and oldest_ms <= min(unsent).position_ms)
        self.rows.waiting.check()
        counts = Counter(self.names[each] for group in self.rows.keyed.groups() for each in group.keys())
        assert self.rows.keyed.counts[QUEUE] == counts


def rows_of(name: str, *keys: RowKey) -> RowGroup:
    group = rows(*keys)
    group.templates = [TEMPLATES[name]]
    return group
