"""Who lives, by one observer's reads; and the steps that change an instance's own register, one answer at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from timerd.core.cluster.membership import FORGOTTEN_AFTER_MS, Members, Predecessor, Timing, beat, claim, enlist, look
from timerd.core.protocol.procedures import Procedure, ReadRegister, ReadRegisters, TryCas
from timerd.model.instance import ROSTER, InstanceEntry, InstanceState, instance_key, roster_bytes
from timerd.model.registers import Control, RegisterKey
from timerd.model.storage import CasResult, CasStatus

TIMING = Timing(heartbeat_ms=2_000, ttl_ms=10_000)
ME = InstanceEntry("me", "here:1", 7, 1)
YOU = InstanceEntry("you", "there:1", 9, 1)


def held_by(entry: InstanceEntry) -> Control:
    return Control(5, entry.name, entry.address, 0, 0, incarnation=entry.incarnation)


def members(*entries: InstanceEntry, at_ms: float = 0.0) -> Members:
    found = Members("me", TIMING)
    found.roster = ("me", *(entry.name for entry in entries))
    for entry in entries:
        found.read(entry.name, entry.to_bytes(), at_ms, at_ms)
    return found


class Registers:
    """Answers procedures; `before` changes something just before the next compare-and-set."""

    def __init__(self, stored: dict[RegisterKey, bytes]) -> None:
        self.stored = stored
        self.changes = 0
        self.before: dict[RegisterKey, bytes] = {}

    def drive(self, procedure: Procedure[Any]) -> Any:  # noqa: ANN401 - what the procedure returns
        answer: object = None
        while True:
            try:
                answer = self._answer(procedure.send(answer))
            except StopIteration as done:
                return done.value

    def _answer(self, request: object) -> object:
        match request:
            case ReadRegister(key):
                return self.stored.get(key)
            case ReadRegisters(keys):
                return [self.stored.get(key) for key in keys]
            case TryCas(change):
                self.stored |= self.before
                self.before = {}
                if self.stored.get(change.key) != change.expected:
                    return CasResult(CasStatus.REFUSED, self.stored.get(change.key))
                self.stored[change.key] = change.value
                self.changes += 1
                return CasResult(CasStatus.APPLIED)
        raise AssertionError(request)


def test_who_stands_still_for_its_lease_is_dead_and_what_it_held_is_free() -> None:
    seen = members(YOU)
    assert (seen.others(), seen.may_take(held_by(YOU))) == (["you"], False)
    for at_ms in range(2_000, 10_000, 2_000):
        seen.read("you", YOU.to_bytes(), at_ms, at_ms)
        assert not seen.may_take(held_by(YOU))
    assert seen.next_look_ms() == 10_000
    seen.read("you", YOU.to_bytes(), 10_000, 10_000)
    assert (seen.others(), seen.may_take(held_by(YOU)), seen.next_look_ms()) == ([], True, None)
    seen.read("you", replace(YOU, counter=2).to_bytes(), 11_000, 11_000)
    assert (seen.others(), seen.may_take(held_by(YOU))) == (["you"], False)


def test_who_was_there_before_has_moved_with_its_first_sign_of_life_and_who_comes_later_at_once() -> None:
    seen = Members("me", TIMING)
    stored = {"you": YOU.to_bytes(), "dead": replace(YOU, name="dead").to_bytes()}
    seen.looked(("dead", "me", "you"), stored, 0, 0)
    seen.looked(("dead", "me", "you"), stored, 2_000, 2_000)
    assert [seen.has_moved(name) for name in ("me", "you", "dead")] == [True, False, False]
    stored["you"] = replace(YOU, counter=2).to_bytes()
    stored["new"] = replace(YOU, name="new").to_bytes()
    seen.looked(("dead", "me", "new", "you"), stored, 4_000, 4_000)
    assert [seen.has_moved(name) for name in ("you", "new", "dead")] == [True, True, False]
    assert "dead" in seen.others()


def test_a_slow_read_does_not_make_anybody_die_early() -> None:
    """The first may have seen a beat that came while it was on its way, the last one began before it ended."""
    seen = Members("me", TIMING)
    seen.roster = ("me", "you")
    for began_ms in (0, 2_000, 4_000, 6_000, 8_000, 10_000):
        seen.read("you", YOU.to_bytes(), began_ms, began_ms + 1_500)
    assert not seen.may_take(held_by(YOU))
    seen.read("you", YOU.to_bytes(), 11_500, 13_000)
    assert seen.may_take(held_by(YOU))


@pytest.mark.parametrize(
    ("now", "free", "gets_more"),
    [
        (YOU, False, True),
        (replace(YOU, state=InstanceState.LEAVING), False, False),
        (replace(YOU, state=InstanceState.LEFT), True, False),
        (replace(YOU, incarnation=10), True, True),
    ],
)
def test_what_an_entry_says_of_the_partitions_of_its_owner(now: InstanceEntry, free: bool, gets_more: bool) -> None:
    seen = members(now)
    assert (seen.may_take(held_by(YOU)), seen.others() == ["you"]) == (free, gets_more)


def test_nobody_is_succeeded_unseen() -> None:
    seen = members()
    assert not seen.may_take(held_by(YOU))
    seen.read("you", None, 0, 0)
    assert seen.may_take(held_by(YOU))
    assert seen.may_take(held_by(replace(YOU, name="")))
    assert seen.may_take(held_by(replace(ME, incarnation=6)))


def test_the_dead_leave_the_roster_much_later() -> None:
    seen = members(YOU, replace(YOU, name="left", state=InstanceState.LEFT))
    assert seen.forgotten() == ["left"]
    for at_ms in range(0, TIMING.ttl_ms + FORGOTTEN_AFTER_MS + 1, 2_000):
        assert seen.forgotten() == ["left"]
        seen.read("you", YOU.to_bytes(), at_ms, at_ms)
    assert seen.forgotten() == ["you", "left"]


def test_who_is_named_in_a_control_row_alone_is_watched_until_it_is_known_to_be_dead() -> None:
    seen = members()
    seen.read("gone", replace(YOU, name="gone").to_bytes(), 0, 0)
    assert (seen.watched(), seen.others()) == (["gone"], [])


def test_a_name_in_use_is_free_when_its_owner_has_stood_still_for_a_lease() -> None:
    before = Predecessor(YOU, TIMING)
    for at_ms in range(0, 10_001, 2_000):
        assert not before.is_dead
        assert not before.lives(YOU, at_ms, at_ms)
    assert before.is_dead
    assert before.lives(replace(YOU, counter=2), 11_000, 11_000)
    assert before.lives(replace(YOU, incarnation=3), 11_000, 11_000)


def test_a_beat_counts_on_from_what_is_stored() -> None:
    key = instance_key("me")
    registers = Registers({key: ME.to_bytes()})
    assert registers.drive(beat(ME, ME)).counter == 2
    unheard = replace(ME, counter=3)
    registers.before = {key: unheard.to_bytes()}
    assert registers.drive(beat(replace(ME, counter=2), replace(ME, incarnation=8))) == replace(
        ME, incarnation=8, counter=4
    )


def test_a_register_that_was_lost_is_made_again() -> None:
    registers = Registers({})
    assert registers.drive(beat(ME, ME)) == replace(ME, counter=2)


def test_who_finds_another_owner_of_its_name_gives_up() -> None:
    registers = Registers({instance_key("me"): replace(ME, incarnation=99).to_bytes()})
    assert registers.drive(beat(ME, ME)) is None
    assert not registers.drive(claim(ME, None))
    assert registers.changes == 0


@pytest.mark.parametrize(
    ("stored", "joining", "leaving", "names"),
    [
        ((), ["b"], [], ("b",)),
        (("a",), ["b"], [], ("a", "b")),
        (("a", "b"), [], ["a"], ("b",)),
        (("a", "b"), ["a"], ["c"], ("a", "b")),
    ],
)
def test_the_roster_is_only_written_where_it_changes(
    stored: Sequence[str], joining: list[str], leaving: list[str], names: tuple[str, ...]
) -> None:
    registers = Registers({ROSTER: roster_bytes(stored)} if stored else {})
    assert registers.drive(enlist(joining, leaving)) == names
    assert registers.changes == (tuple(stored) != names)


def test_two_that_join_at_the_same_moment_are_both_on_the_roster() -> None:
    registers = Registers({})
    registers.before = {ROSTER: roster_bytes(["b"])}
    assert registers.drive(enlist(["a"])) == ("a", "b")


def test_a_look_reads_the_others_and_those_who_are_watched() -> None:
    registers = Registers({ROSTER: roster_bytes(["me", "you"]), instance_key("you"): YOU.to_bytes()})
    roster, stored = registers.drive(look("me", ["gone"]))
    assert roster == ("me", "you")
    assert stored == {"gone": None, "you": YOU.to_bytes()}
