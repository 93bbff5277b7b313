"""`timerd cycles` against a whole server in a thread of its own, and the SQL that it prints on a real SQLite."""

from __future__ import annotations

import sqlite3

import pytest

from tests.cli.conftest import Terminal
from timerd.client import slot_hash
from timerd.core.slots import Key, hash_of, slot_range
from timerd.testing import Server

SYNC = ("--every", "8h", "--queue", "accounts", "--slot-queue", "account-slots")


def test_a_cycle_from_its_creation_to_its_end(terminal: Terminal, whole: Server) -> None:
    made = terminal("cycles", "create", "sync", *SYNC, "--label", "team=a", "--json").json
    assert (made["state"], made["slots"], made["period"], made["slot_queue"]) == (
        *("ACTIVE", 480, "8:00:00"),
        "account-slots",
    )
    again = terminal("cycles", "create", "sync", *SYNC)
    assert again.code == 1
    assert "There is a cycle 'sync' already" in again.err
    assert "sync" in terminal("cycles", "list").out
    assert terminal("cycles", "list", "--prefix", "x").out.strip() == "No cycles."
    assert terminal("cycles", "pause", "sync", "--note", "a move", "--json").json["state"] == "PAUSED"
    assert "a move" in terminal("cycles", "show", "sync").out
    assert terminal("cycles", "resume", "sync", "--json").json["revision"] == 3
    assert terminal("cycles", "show", "sync", "--json").json["members"] == 0
    assert terminal("cycles", "delete", "sync", "--revision", "2").code == 1
    assert terminal("cycles", "delete", "sync").out == "sync is deleted.\n"
    assert terminal("cycles", "show", "sync").code == 1


def test_members_that_timerd_keeps(terminal: Terminal, whole: Server) -> None:
    assert terminal("cycles", "create", "kept", *SYNC[:4], "--json").json["slot_queue"] == ""
    assert terminal("cycles", "put", "kept", "a", "b", "c").out == "3 keys are members.\n"
    assert terminal("cycles", "remove", "kept", "b", "--json").json["removed"] == 1
    listed = terminal("cycles", "members", "kept", "--json").lines
    assert sorted((each["key"], each["payload"]) for each in listed) == [("a", "a"), ("c", "c")]
    terminal("cycles", "create", "other", *SYNC)
    refused = terminal("cycles", "put", "other", "a")
    assert (refused.code, "in your database" in refused.err) == (1, True)


def test_the_sql_of_sqlite_finds_each_member_in_its_slot(terminal: Terminal) -> None:
    printed = terminal("cycles", "sql", "--dialect", "sqlite", "--table", "account").out
    *made, select = [each for each in printed.split(";") if each.strip()]
    database = sqlite3.connect(":memory:")
    database.create_function("slot_hash", 1, slot_hash, deterministic=True)
    database.execute("CREATE TABLE account (id INTEGER PRIMARY KEY)")
    for statement in made:
        database.execute(statement)
    database.executemany("INSERT INTO account (id) VALUES (?)", [(number,) for number in range(1_000)])
    found: list[int] = []
    for slot in range(7):
        lo, hi = slot_range(slot, 7).signed
        found += [key for (key,) in database.execute(select, {"lo": lo, "hi": hi})]
    assert sorted(found) == list(range(1_000))
    plan = " ".join(map(str, database.execute(f"EXPLAIN QUERY PLAN {select}", {"lo": 0, "hi": 1}).fetchall()))
    assert "account_slot_hash" in plan
    database.close()


def test_places_are_named_at_the_creation_and_by_each_put(terminal: Terminal, whole: Server) -> None:
    places = ("--place", "payments", "--place", "reports")
    assert terminal("cycles", "create", "kinds", *SYNC[:4], *places, "--json").json["places"] == ["payments", "reports"]
    assert terminal("cycles", "put", "kinds", "a", "b", "--place", "payments").code == 0
    assert terminal("cycles", "put", "kinds", "a", "--place", "reports").code == 0
    assert "has the places payments, reports" in terminal("cycles", "put", "kinds", "a").err
    assert "payments, reports" in terminal("cycles", "show", "kinds").out
    listed = terminal("cycles", "members", "kinds", "--json").lines
    assert sorted((each["key"], each["place"]) for each in listed) == [
        *(("a", "payments"), ("a", "reports")),
        ("b", "payments"),
    ]
    terminal("cycles", "remove", "kinds", "a", "--place", "payments")
    assert len(terminal("cycles", "members", "kinds", "--json").lines) == 2


def test_the_sql_of_places_finds_the_kinds_of_a_slot(terminal: Terminal) -> None:
    printed = terminal("cycles", "sql", "--dialect", "sqlite", "--place", "payments", "--place", "reports").out
    *made, select = [each for each in printed.split(";") if each.strip()]
    database = sqlite3.connect(":memory:")
    database.create_function("slot_hash", 1, slot_hash, deterministic=True)
    database.execute("CREATE TABLE account (id INTEGER PRIMARY KEY)")
    for statement in made:
        database.execute(statement)
    database.executemany("INSERT INTO account (id) VALUES (?)", [(number,) for number in range(200)])
    found: list[tuple[str, int]] = []
    for slot in range(4):
        bounds = (slot_range(slot, 4).signed, slot_range((slot - 2) % 4, 4).signed)
        named = {f"{end}{n}": each[i] for n, each in enumerate(bounds) for i, end in enumerate(("lo", "hi"))}
        found += [(place, key) for key, place in database.execute(select, named)]
    assert sorted(found) == [(place, key) for place in ("payments", "reports") for key in range(200)]
    database.close()


def test_the_sql_of_others_names_the_table_and_an_unknown_one_is_refused(terminal: Terminal) -> None:
    assert "ALTER TABLE users" in terminal("cycles", "sql", "--dialect", "postgres", "--table", "users").out
    assert (
        r"replace(name, '\', '\\')" in terminal("cycles", "sql", "--dialect", "postgres", "--key", "name", "--text").out
    )
    assert "SHA2(id, 256)" in terminal("cycles", "sql", "--dialect", "mysql").out
    told = terminal("cycles", "sql", "--dialect", "mysql", "--place", "payments", "--json").json
    assert (
        told["ddl"] + told["select"]
        == terminal("cycles", "sql", "--dialect", "mysql", "--place", "payments").out.strip()
    )
    assert (told["dialect"], told["places"]) == ("mysql", ["payments"])
    assert terminal("cycles", "sql", "--dialect", "mysql", "-o", "name").out == "mysql\n"
    refused = terminal("cycles", "sql", "--dialect", "oracle")
    assert (refused.code, "postgres, mysql, sqlite" in refused.err) == (2, True)


@pytest.mark.parametrize("key", [0, -1, 42, 2**70, "zoë", ""])
def test_the_hash_of_the_sdk_is_that_of_the_server(key: Key) -> None:
    assert slot_hash(key) == hash_of(key) - 2**63  # type: ignore[arg-type]


def test_members_of_a_high_weight_are_moved_by_force_alone(terminal: Terminal, whole: Server) -> None:
    terminal("cycles", "create", "even", *SYNC[:4], "--slots", "4")
    terminal("cycles", "put", "even", "small", "tiny", "--weight", "1")
    terminal("cycles", "put", "even", *(f"large-{n}" for n in range(6)), "--weight", "10")
    listed = terminal("cycles", "members", "even", "--json").lines
    assert sorted(each["weight"] for each in listed) == [1, 1, *[10] * 6]
    seen = terminal("cycles", "rebalance", "even", "--max-moved", "100%", "--json").json
    assert (seen["members"], seen["dry_run"], seen["effective_time"]) == (8, True, None)
    done = terminal("cycles", "rebalance", "even", "--max-moved", "1", "--force", "--json").json
    assert (done["moved"], done["largest"]) == (seen["moved"], seen["largest"])
    assert terminal("cycles", "show", "even", "--json").json["revision"] == (2 if done["moved"] else 1)
    for wrong in ("0", "200%", "much"):
        refused = terminal("cycles", "rebalance", "even", "--max-moved", wrong)
        assert (refused.code, "is no share of the members" in refused.err) == (2, True)
