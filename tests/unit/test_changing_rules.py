"""Rules Q1 and Q2: of a change and an instance that comes, in every order of their steps, nobody sends by old rules
after the answer. And each step that is left out is found out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import pytest

from timerd.core.protocol import ListEntries, Procedure, ReadRegister, ReadRegisters, Request, TryCas, WriteEntries
from timerd.core.regulation import AllRules, KnownRules, change_limit, change_rules, read_all_rules
from timerd.core.taken import QueueKey
from timerd.model.errors import Aborted
from timerd.model.instance import ROSTER, InstanceEntry, instance_key, roster_bytes, roster_of
from timerd.model.named_limits import LimitName, NamedLimit
from timerd.model.registers import RegisterKey
from timerd.model.regulations import Mode, QueueLimit, Regulation
from timerd.model.storage import CasResult, CasStatus, Entry, EntryKey

MAIL = QueueKey("default", "mail")
NOW_MS = 1_000
ME = ("b", 7)


def paused(rules: Regulation) -> Regulation:
    return Regulation(rules.revision, Mode.PAUSED, requests=rules.requests)


@dataclass
class Shelf:
    """The store: registers and notes."""

    registers: dict[RegisterKey, bytes] = field(default_factory=dict)
    notes: dict[EntryKey, bytes] = field(default_factory=dict)

    def answer(self, request: Request) -> Any:  # noqa: ANN401 - of each request
        match request:
            case ReadRegister(key):
                return self.registers.get(key)
            case ReadRegisters(keys):
                return [self.registers.get(key) for key in keys]
            case WriteEntries(entries):
                return self.notes.update((each.key, each.value) for each in entries)
            case ListEntries([(place, after, limit)]):
                found = sorted(key for key in self.notes if key.place == place and key.name > after)
                return [[Entry(key, self.notes[key]) for key in found[:limit]]]
            case TryCas(change):
                current = self.registers.get(change.key)
                if current != change.expected:
                    return CasResult(CasStatus.REFUSED, current)
                self.registers[change.key] = change.value
                return CasResult(CasStatus.APPLIED)
        raise AssertionError(request)

    def steps(self, procedure: Procedure[Any], done: Callable[[Any], None]) -> Iterator[None]:
        """One request after each `next`."""
        try:
            request = next(procedure)
            while True:
                answer = self.answer(request)
                yield
                request = procedure.send(answer)
        except StopIteration as over:
            done(over.value)

    def run(self, procedure: Procedure[Any]) -> Any:  # noqa: ANN401 - of each procedure
        found: list[Any] = []
        for _ in self.steps(procedure, found.append):
            pass
        return found[0]


class History:
    """One instance comes while another one pauses a queue. `sees_itself`: the one that comes reads that others see it,
    THEN the rules; `asks_after`: who pauses reads who lives after the compare-and-set."""

    def __init__(self, *, sees_itself: bool = True, asks_after: bool = True) -> None:
        self.shelf = Shelf({ROSTER: roster_bytes(["a"])})
        self.known = KnownRules()
        self.asked: list[str] | None = None
        self.is_over = False
        self._sees_itself, self._asks_after = sees_itself, asks_after

    def comes(self) -> Iterator[None]:
        """It joins, and reads until it may send: all the while, for one that comes back does both side by side."""
        me = ME if self._sees_itself else None
        yield from self._reads(me)
        self.shelf.registers[instance_key("b")] = InstanceEntry(*ME[:1], "b:1", ME[1], 1).to_bytes()
        yield
        yield from self._reads(me)
        self.shelf.registers[ROSTER] = roster_bytes(["a", "b"])
        yield
        while not self.known.is_read:
            yield from self._reads(me)

    def _reads(self, me: tuple[str, int] | None) -> Iterator[None]:
        def read(found: AllRules | None) -> None:
            if found is not None:
                self.known.read(found, self.known.life)

        yield from self.shelf.steps(read_all_rules(me), read)

    def pauses(self) -> Iterator[None]:
        if not self._asks_after:
            yield from self._asks()
        yield from self.shelf.steps(change_rules(MAIL, "call", 0, paused), lambda _: None)
        if self._asks_after:
            yield from self._asks()
        assert self.asked is not None
        if "b" in self.asked:
            self.known.heard(MAIL, Regulation(1, Mode.PAUSED))
        self.is_over = True

    def _asks(self) -> Iterator[None]:
        self.asked = list(roster_of(self.shelf.registers[ROSTER]))
        yield

    def sends_after_the_answer(self, turns: tuple[int, ...]) -> bool:
        """`turns`: the steps, of all, that the one that comes makes."""
        comes, pauses = self.comes(), self.pauses()
        for step in range(COMES + PAUSES):
            next(comes if step in turns else pauses, None)
        for rest in (pauses, comes):
            for _ in rest:
                pass
        return self.is_over and self.known.opens_ms(MAIL, NOW_MS) <= NOW_MS


# More steps than either has.
COMES, PAUSES = 9, 5


@pytest.mark.parametrize(
    ("broken", "is_safe"), [({}, True), ({"sees_itself": False}, False), ({"asks_after": False}, False)]
)
def test_in_every_order_of_the_steps_nobody_sends_after_the_answer(broken: dict[str, bool], is_safe: bool) -> None:
    orders = combinations(range(COMES + PAUSES), COMES)
    assert any(History(**broken).sends_after_the_answer(turns) for turns in orders) == (not is_safe)


def test_the_repeat_of_a_call_changes_nothing() -> None:
    shelf = Shelf()
    first = shelf.run(change_rules(MAIL, "one", 0, paused))
    assert (first.revision, first.mode) == (1, Mode.PAUSED)
    shelf.run(change_rules(MAIL, "two", 0, lambda rules: Regulation(rules.revision, requests=rules.requests)))
    again = shelf.run(change_rules(MAIL, "one", 0, paused))
    assert (again.revision, again.mode) == (2, Mode.RUNNING)


def test_what_is_so_already_keeps_its_revision_and_a_wrong_one_is_refused() -> None:
    shelf = Shelf()
    shelf.run(change_rules(MAIL, "one", 0, paused))
    assert shelf.run(change_rules(MAIL, "two", 1, paused)).revision == 1
    with pytest.raises(Aborted, match="have revision 1 by now, not 9"):
        shelf.run(change_rules(MAIL, "three", 9, paused))


def test_all_rules_are_read_over_pages_and_kinds_of_a_later_release() -> None:
    shelf = Shelf()
    for number in range(3):
        shelf.run(change_rules(QueueKey("default", f"q{number}"), "one", 0, paused))
    limited = NamedLimit(0, QueueLimit(max_in_hand=3))
    shelf.run(change_limit(LimitName("default", "stripe"), "one", 0, lambda _: limited))
    shelf.notes[EntryKey(b"regulations", b"default\0pool\0convert")] = b"1"
    found = shelf.run(read_all_rules(None))
    assert sorted(queue.queue for queue in found.queues) == ["q0", "q1", "q2"]
    assert [(name, kept.revision, kept.limit) for name, kept in found.limits.items()] == [
        (LimitName("default", "stripe"), 1, limited.limit)
    ]
