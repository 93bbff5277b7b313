"""Builders for tests of ordering keys: rows that have one, and a partition that is told this and that."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.unit.partition_rig import HERE, MAIL, NOW_MS, QUEUE, hot
from timerd.core.ordering import KeyGate
from timerd.core.partition import PartitionMachine, WriteCarried, WriteSettled
from timerd.core.partition.effects import Effects
from timerd.core.taken import LAST, Ended
from timerd.model.identity import RowKey
from timerd.model.ordering import ordered_extra
from timerd.model.rows import FLAG_ORDERED, RowGroup, concat, single_row
from timerd.model.settle import Outcome
from timerd.model.task import Template


def ordered(*keys: RowKey, name: str = "a", base: int = 0, template: Template = MAIL) -> RowGroup:
    extra = replace(ordered_extra(name), order_base=base)
    return concat([single_row(k, k.position_ms, template, b"body", extra, FLAG_ORDERED) for k in keys])


@dataclass
class Instance:
    """One partition, and what is known of the others."""

    machine: PartitionMachine
    known_ms: int = LAST
    heard_by_ms: float = 0
    now_ms: int = NOW_MS
    pending: list[WriteSettled] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keys = self.machine.ordered.order_keys
        self.keys.draw(1, 0)
        self._gate = KeyGate(
            self.keys, lambda _: self.machine.ordered, lambda *_: self.known_ms, lambda: self.heard_by_ms
        )

    def taken(self, most: int = 100) -> list[RowKey]:
        found = self.machine.take(QUEUE, most, self.now_ms, gates=[self._gate])
        return found.rows.keys() if found is not None else []

    def ends(self, key: RowKey, outcome: Outcome = Outcome.ACKED) -> None:
        self.machine.end([Ended(HERE, key, outcome)])
        self.writes(self.machine.flush())

    def writes(self, effects: Effects) -> None:
        self.pending += [effect for effect in effects if isinstance(effect, WriteSettled)]

    def is_durable(self) -> list[RowGroup]:
        """The record is written; the rows that it requeues come in again."""
        back: list[RowGroup] = []
        while self.pending:
            effects = self.machine.settled_written(self.pending.pop(0).record)
            self.writes(effects)
            for effect in effects:
                if isinstance(effect, WriteCarried):
                    back += [rows for _, rows in effect.groups]
                    for _, rows in effect.groups:
                        self.machine.hint(rows, 0)
                    self.machine.carried_written(effect.sequence)
        return back


def instance(*groups: RowGroup) -> Instance:
    return Instance(hot(*groups))
