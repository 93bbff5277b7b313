"""A part of an id that was printed here names it; the server is not asked what it could mean."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Terminal
from timerd.commands.failures import WrongInput
from timerd.commands.recent_ids import MOST_KEPT, IdSource, file_of_ids, remember, short_of, whole_id
from timerd.testing import Server

HERE, THERE = IdSource("127.0.0.1:7400", "default"), IdSource("127.0.0.1:7400", "shop")
ONE = "AQAAAaIhkK-gAABgQOOCjyNbUQCmecf9HKXb_PJ501EAAAAAaCe2e9w1M7k"
TWO = "AQAAAaIhkK-gAABgQOOCjyNbUQCmecf9HKXb_PJ501EAAAABaCe2e9w1M7k"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def test_what_is_shown_short_tells_tasks_of_one_call_apart() -> None:
    remember(HERE, [ONE, TWO])
    assert short_of(ONE) != short_of(TWO)
    assert [whole_id(HERE, short_of(each)) for each in (ONE, TWO)] == [ONE, TWO]
    assert short_of("A1") == "A1"


def test_a_short_id_is_never_taken_for_an_option() -> None:
    dashed = f"{ONE[:37]}--{ONE[39:]}"
    assert short_of(dashed) == dashed[36:46]
    assert whole_id(HERE, short_of(dashed)) == short_of(dashed), "nobody has printed it"
    remember(HERE, [dashed])
    assert whole_id(HERE, short_of(dashed)) == dashed
    assert short_of("-" * 59) == "-" * 10


def test_a_beginning_that_only_one_has_is_enough_and_others_are_listed() -> None:
    remember(HERE, [ONE, TWO])
    assert whole_id(HERE, ONE[:-11]) == ONE
    with pytest.raises(WrongInput) as ambiguous:
        whole_id(HERE, ONE[:20])
    assert str(ambiguous.value).splitlines() == [
        f"2 ids that were printed here have '{ONE[:20]}' in them. Give more of one:",
        f"  {TWO}",
        f"  {ONE}",
    ]


def test_what_was_printed_of_another_namespace_or_server_is_not_meant() -> None:
    remember(THERE, [ONE])
    remember(HERE, [TWO])
    assert whole_id(HERE, ONE[:20]) == TWO
    assert whole_id(IdSource("other:7400", "default"), ONE[:20]) == ONE[:20]


def test_an_id_that_is_whole_or_unknown_or_too_short_is_taken_as_it_is() -> None:
    remember(HERE, [TWO])
    for text in (ONE, "A1", "nowhere", ONE[:3]):
        assert whole_id(HERE, text) == text


def test_a_part_that_was_not_shown_is_said_to_be_one(terminal: Terminal, whole: Server) -> None:
    """Also where it is too short to be looked for. Of a whole id the server speaks."""
    unknown = terminal("get", "J501EAAAAAxx")
    assert "'J501EAAAAAxx' is no whole id, and no id that was shown here recently has it in it: give" in unknown.err
    assert "give 4 characters at least, or the whole id" in terminal("get", "AQA").err
    cancelled = terminal("cancel", "J501EAAAAAxx")
    assert (unknown.code, cancelled.code, "is no whole id" in cancelled.err) == (1, 1, True)
    assert "There is no task" in terminal("get", ONE).err


@pytest.mark.parametrize("command", ["get", "cancel", "explain", "wait", "fire-now"])
def test_a_key_in_the_place_of_an_id_is_asked_for_by_its_option(
    terminal: Terminal, whole: Server, command: str
) -> None:
    """Also by commands that take no key: that one shows the id."""
    ran = terminal(command, "order-4711")
    assert ran.code == 1
    assert "`timerd get --key order-4711` shows its id" in ran.err
    assert terminal("get", "--key", "order-4711").err == "timerd: No task has the key 'order-4711'.\n"


def test_only_so_many_are_kept_and_what_was_printed_again_is_the_last() -> None:
    ids = [f"{number:05}-{'x' * 53}" for number in range(MOST_KEPT)]
    remember(HERE, [ONE])
    remember(HERE, ids[:-1])
    remember(HERE, [ONE])
    remember(HERE, ids[-1:])
    lines = file_of_ids().read_text().splitlines()
    assert (len(lines), lines[-1]) == (MOST_KEPT, f"127.0.0.1:7400 default {ids[-1]}")
    assert whole_id(HERE, short_of(ONE)) == ONE
    assert whole_id(HERE, ids[0][:8]) == ids[0][:8]


def test_where_nothing_can_be_written_nothing_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "no-folder"
    file.write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(file))
    remember(HERE, [ONE])
    assert whole_id(HERE, ONE[:20]) == ONE[:20]


def test_commands_take_a_part_of_what_a_table_has_shown(terminal: Terminal, whole: Server, state: Path) -> None:
    terminal("schedule", "mails", "hello", "--at", "2030-01-01T01:00:00Z")
    found = re.search(r"\S{59}", terminal("list").out)
    assert found is not None
    part = short_of(found.group())
    assert found.group() in terminal("get", part).out
    assert terminal("explain", part).code == 0
    assert found.group() in terminal("fire-now", part).out
    assert "CANCELLED" in terminal("cancel", part).out
    assert (state / "timerd" / "ids").stat().st_mode & 0o077 == 0


def test_what_is_printed_for_programs_is_not_remembered(terminal: Terminal, whole: Server, state: Path) -> None:
    terminal("schedule", "mails", "hello", "--at", "2030-01-01T01:00:00Z", "--json")
    assert terminal("list", "-o", "name").out
    assert not (state / "timerd" / "ids").exists()
