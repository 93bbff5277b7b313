"""Tables fit the terminal: the renderer by itself, and every command that lists against a server process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.cli.commands import paths_of_commands
from tests.cli.conftest import Terminal
from tests.cli.filled_server import ERROR, LIMIT, LONG, filled_server, working
from timerd.commands.table import Column, Kind, fitted_table, wide_table

ID = "AQAAAaIhkK-gAABgQOOCjyNbUQCmecf9HKXb_PJ501EAAAAAaCe2e9w1M7k"
COLUMNS = (
    Column("due_time", Kind.MOMENT, "due"),
    Column("made", is_wide=True),
    Column("queue", Kind.NAME),
    Column("task_id", Kind.ID),
    Column("tries", Kind.FIGURE),
    Column("labels", Kind.TEXT, is_spare=True),
    Column("payload", Kind.TEXT),
)
RECORD = {
    "due_time": "2130-01-01T09:00:00.000Z",
    "made": "yes",
    "queue": "mails",
    "task_id": ID,
    "tries": 3,
    "labels": {"team": "blue"},
    "payload": "a\tb\x1b[31m",
}
LISTINGS = {
    ("list",): (),
    ("get",): ("--key", "order-4711"),
    ("dead-letters",): (),
    ("schedules", "list"): (),
    ("schedules", "show"): ("report",),
    ("schedules", "preview"): ("report",),
    ("schedules", "backfills"): ("report",),
    ("cycles", "list"): (),
    ("cycles", "show"): ("sync",),
    ("cycles", "members"): ("sync",),
    ("cluster",): (),
    ("workers",): (),
    ("partition",): ("now",),
    ("queues", "list"): (),
    ("queues", "show"): (LONG,),
    ("keys", "list"): ("pages",),
    ("limits", "list"): (),
    ("limits", "show"): (LIMIT,),
    ("explain",): ("--key", "order-4711"),
    ("config", "show"): (),
    ("audit",): (str(Path(__file__).with_name("audit.jsonl")),),
}
# They show one record that has no name, or need an outbox.
TRIED_ELSEWHERE = {
    ("count",),
    ("doctor",),
    ("health",),
    ("version",),
    ("config", "check"),
    ("cycles", "sql"),
    ("outbox", "status"),
    ("outbox", "refused"),
}
CHANGING = {
    *("dev", "serve", "token", "demo", "simulate", "work", "wait", "top", "tail", "schema apply", "backup", "restore"),
    *("schedule", "call", "cancel", "reschedule", "fire-now", "purge", "redrive", "purge-dead", "announce", "drain"),
    *("celery run", "celery import", "outbox init", "outbox run", "outbox reset", "zones sweep"),
    *(f"schedules {verb}" for verb in ("create", "pause", "resume", "trigger", "update", "delete", "prune")),
    *("schedules backfill", "schedules cancel-backfill", "keys resume", "keys skip", "limits set", "limits rm"),
    *(f"cycles {verb}" for verb in ("create", "pause", "resume", "delete", "put", "remove", "rebalance")),
    *(f"queues {verb}" for verb in ("set", "pause", "resume", "drain", "stop")),
}
# The first field of each record, but of a partition, whose bucket stands above the table.
NAMED_BY = {"partition": "shard"}
TYPED = [(*path, *more) for path, more in LISTINGS.items()]


# -- the renderer -----------------------------------------------------------------------------------------------------


def fitted(width: int, *records: dict[str, Any]) -> list[str]:
    return list(fitted_table(records, COLUMNS, width))


def test_where_there_is_room_a_record_is_a_line() -> None:
    heading, line = fitted(200, RECORD)
    assert heading.split() == ["due", "queue", "task", "id", "tries", "labels", "payload"]
    assert line.split() == ["2130-01-01", "mails", ID, "3", "team=blue", "a", "b", "[31m"]


def test_an_id_that_does_not_fit_stands_whole_below_its_row() -> None:
    heading, line, below = fitted(80, RECORD)
    assert heading.split() == ["due", "queue", "tries", "labels", "payload"]
    assert line.split() == ["2130-01-01", "mails", "3", "team=blue", "a", "b", "[31m"]
    assert below == f"  {ID}"


def test_texts_are_cut_names_go_on_and_spare_columns_go() -> None:
    record = RECORD | {"queue": "q" * 100, "payload": "word " * 100, "labels": {"a": "b" * 100}}
    heading, line, *rest, below, end = fitted(40, record)
    assert "labels" not in heading
    assert line.endswith("…")
    assert "".join(part.strip() for part in (line.split()[1], *rest)) == "q" * 100
    assert (below, end) == (f"  {ID[:38]}", f"  {ID[38:]}")


def test_a_column_in_which_nothing_stands_is_left_out() -> None:
    assert "labels" not in fitted(200, RECORD | {"labels": {}})[0]
    assert "labels" in fitted(200, RECORD, RECORD | {"labels": {}})[0]


@pytest.mark.parametrize("width", [30, 44, 80, 120, 200])
@pytest.mark.parametrize("queue", ["q", "a/long.name" * 12, "列" * 50])
@pytest.mark.parametrize("payload", ["", "x" * 500, "ein Satz " * 40, "語" * 90])
def test_no_line_is_wider_than_there_is_room(width: int, queue: str, payload: str) -> None:
    lines = fitted(width, RECORD | {"queue": queue, "payload": payload}, RECORD)
    assert max(map(cell_len, lines)) <= width
    assert ID in "".join(line.strip() for line in lines)


def test_a_list_stands_as_its_members() -> None:
    _, line = wide_table([{"limit": "stripe", "queues": ["charges", "refunds"]}], (Column("limit"), Column("queues")))
    assert line.split() == ["stripe", "charges,", "refunds"]


def test_the_wide_table_has_all_columns_and_times_as_they_are() -> None:
    heading, line = wide_table([RECORD], COLUMNS)
    assert "made" in heading
    assert all(text in line for text in ("2130-01-01T09:00:00.000Z", "yes", ID, "team=blue"))


def short_iso_of(name: str) -> str:
    return name.replace(":00.000Z", "Z")


# -- every command ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = filled_server(tmp_path_factory.mktemp("filled"))
    with working(server.address):
        yield server.address
    server.stop()


@pytest.fixture
def typed(terminal: Terminal, address: str) -> Terminal:
    """A terminal of 80 columns, whose commands go to that server."""
    terminal.monkeypatch.setenv("TIMERD_SERVER", address)
    terminal.monkeypatch.delenv("COLUMNS", raising=False)
    return terminal


def options_of(command: Any) -> set[str]:  # noqa: ANN401 - typer's own
    return {option for each in command.params for option in each.opts}


def test_every_command_speaks_json_and_those_that_show_other_forms_too() -> None:
    """A new command says what it is: those that change, begin or go on with something have `--json` alone."""
    options = {" ".join(path): options_of(command) for path, command in paths_of_commands()}
    assert {path for path, has in options.items() if "--json" not in has} == set()
    assert {path for path, has in options.items() if not has & {"--output"}} == CHANGING


def test_every_command_that_lists_is_tried_here() -> None:
    showing = {path for path, command in paths_of_commands() if "--output" in options_of(command)}
    assert showing - TRIED_ELSEWHERE == set(LISTINGS)


@pytest.mark.parametrize("arguments", TYPED, ids=" ".join)
def test_what_a_command_lists_fits_80_columns(typed: Terminal, arguments: tuple[str, ...]) -> None:
    ran = typed(*arguments)
    assert (ran.code, ran.err) == (0, "")
    assert len(ran.out.splitlines()) > 1
    assert [line for line in ran.out.splitlines() if cell_len(line) > 80] == []


@pytest.mark.parametrize("arguments", TYPED, ids=" ".join)
def test_names_are_those_of_the_records_and_stand_whole_in_the_table(
    typed: Terminal, arguments: tuple[str, ...]
) -> None:
    names = typed(*arguments, "-o", "name").out.splitlines()
    records = typed(*arguments, "-o", "json").lines
    assert names == [str(record[NAMED_BY.get(arguments[0], next(iter(record)))]) for record in records]
    shown = typed(*arguments).out
    assert [name for name in names if name not in shown and short_iso_of(name) not in shown] == []


def test_a_wide_table_is_a_line_for_each_record_with_iso_times(typed: Terminal) -> None:
    heading, *lines = typed("list", "-o", "wide").out.splitlines()
    records = typed("list", "--json").lines
    assert "priority" in heading
    assert len(lines) == len(records)
    for record, line in zip(records, lines, strict=True):
        assert all(record[name] in line for name in ("task_id", "due_time", "fire_time", "queue"))


def test_a_dead_letter_shows_the_last_line_of_its_error(typed: Terminal) -> None:
    shown = typed("dead-letters").out
    assert "ago" in shown
    assert ERROR[:20] in shown
    assert "Traceback" not in shown
    assert ERROR in typed("dead-letters", "-o", "wide").out


def test_workers_show_their_pools_and_what_is_free(typed: Terminal) -> None:
    shown = typed("workers").out
    assert "8 of 8" in shown
    assert "convert (" in shown
    (record,) = typed("workers", "--json").lines
    assert record["pools"] == [{"pool": "convert", "queues": sorted(["pdf", "excel", LONG]), "slots": 8, "free": 8}]
    assert sorted(record["queues"]) == sorted(["pdf", "excel", LONG, "letters"])


def test_times_are_told_from_now(typed: Terminal) -> None:
    shown = typed("list", "--queue", "mails").out
    assert "in 3 h 1" in shown
    assert "in 9 d 23 h" in typed("list", "--queue", LONG).out


def test_json_is_the_same_by_both_names_and_another_form_beside_it_is_refused(typed: Terminal) -> None:
    assert typed("schedules", "list", "--json").out == typed("schedules", "list", "-o", "json").out
    ran = typed("list", "--json", "-o", "wide")
    assert (ran.code, ran.out) == (2, "")
    assert "--json means -o json, and -o wide was given too: give one of them." in ran.err
    assert "'table', 'wide', 'json', 'name'" in typed("list", "-o", "yaml").err


def test_a_wider_terminal_has_a_line_for_each_record(typed: Terminal) -> None:
    typed.monkeypatch.setenv("COLUMNS", "220")
    heading, line = typed("list", "--queue", "mails").out.splitlines()
    assert "task id" in heading
    assert "labels" in heading
    assert json.loads(typed("list", "--queue", "mails", "--json").out)["task_id"] in line
