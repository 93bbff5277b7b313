"""`timerd queues` against a whole server in a thread of its own."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.cli.conftest import Terminal
from timerd.testing import Server


def test_a_queue_from_its_pause_to_its_end(terminal: Terminal, whole: Server) -> None:
    assert terminal("queues", "list").out == "No queue has rules.\n"
    said = terminal("queues", "pause", "mails", "--note", "the printer burns")
    assert said.out == "mails is PAUSED: it sends nothing.\n"
    assert "the printer burns" in terminal("queues", "list").out
    shown = terminal("queues", "show", "mails", "--json").json
    assert (shown["mode"], shown["revision"], shown["until"]) == ("PAUSED", 1, None)
    drained = terminal("queues", "drain", "mails", "--json").json
    assert (drained["mode"], drained["silent"]) == ("DRAINING", [])
    refused = terminal("schedule", "mails", "x", "--at", "2030-01-01T01:00:00Z")
    assert (refused.code, "takes no tasks in, it is DRAINING" in refused.err) == (1, True)
    assert terminal("queues", "stop", "mails").out == "mails is STOPPED: it takes and sends nothing.\n"
    assert terminal("queues", "resume", "mails", "--revision", "1").code == 1
    assert terminal("queues", "resume", "mails").out == "mails is RUNNING: it takes in and sends.\n"


def test_a_queue_gets_a_limit_and_loses_it(terminal: Terminal, whole: Server) -> None:
    said = terminal("queues", "set", "charges", "--rate", "100/s", "--burst", "20", "--max-in-hand", "50")
    assert said.out == "charges starts 100/s, 20 at once and has 50 in hand at most.\n"
    shown = terminal("queues", "show", "charges", "--json").json
    assert (shown["rate"], shown["burst"], shown["max_in_hand"], shown["mode"]) == ("100/s", 20, 50, "RUNNING")
    assert "100/s" in terminal("queues", "list").out
    assert terminal("queues", "set", "charges", "--rate", "5/10s", "--json").json["rate"] == "5/10s"
    assert terminal("queues", "set", "charges", "--no-limit").out == "charges has no limit.\n"
    halts = terminal("queues", "set", "charges", "--ordering", "halt")
    assert halts.out == "charges has no limit, and its ordering keys go by HALT.\n"
    assert terminal("queues", "set", "charges", "--ordering", "hold").out == "charges has no limit.\n"
    for wrong in ([], ["--no-limit", "--burst", "3"], ["--rate", "fast"], ["--burst", "3"]):
        refused = terminal("queues", "set", "charges", *wrong)
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused


def test_what_is_not_named_stays(terminal: Terminal, whole: Server) -> None:
    """Each of the first three commands says one thing of the queue; the last ones take one away."""
    terminal("queues", "set", "charges", "--rate", "100/s", "--max-in-hand", "50")
    terminal("queues", "set", "charges", "--ordering", "halt", "--key", "acme=20", "--key-share", "0.2")
    said = terminal("queues", "set", "charges", "--breaker", "--key", "initech=30/m", "--key-weight", "acme=3")
    assert " ".join(said.out.split()) == (
        "charges starts 100/s, 10 at once and has 50 in hand at most, and has a breaker, and goes by limit keys: 20% "
        "of what is in hand is one limit key's at most, 2 limit keys have an override, with weights acme=3, and its "
        "ordering keys go by HALT."
    )
    shown = terminal("queues", "show", "charges").out
    assert "acme has 20 in hand at most" in shown
    assert "initech starts 30/m, 1 at once at most" in shown
    halved = terminal("queues", "set", "charges", "--max-in-hand", "25", "--json").json
    assert (halved["rate"], halved["max_in_hand"], halved["keys"]["weights"]) == ("100/s", 25, {"acme": 3.0})
    left = terminal("queues", "set", "charges", "--clear", "rate", "--clear", "breaker", "--key", "acme=default").out
    assert " ".join(left.split()) == (
        "charges has 25 in hand at most, and goes by limit keys: 20% of what is in hand is one limit key's at "
        "most, 1 limit key has an override, with weights acme=3, and its ordering keys go by HALT."
    )
    gone = terminal("queues", "set", "charges", "--no-limit").out
    assert gone == "charges has no limit, and its ordering keys go by HALT.\n"
    for wrong in (
        ["--clear", "everything"],
        ["--clear", "rate", "--rate", "3/s"],
        ["--key-weight", "acme=much"],
        ["--key-weight", "acme=1000"],
        ["--key", "a=1", "--key", "a=2"],
    ):
        refused = terminal("queues", "set", "charges", *wrong)
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused


def test_what_is_said_of_keys_is_shown_and_taken_away_like_the_rest(terminal: Terminal, whole: Server) -> None:
    of_keys = "--key", "acme=20", "--key-weight", "acme=3", "--key-weight", "bell=0.5"
    terminal("queues", "set", "charges", "--ordering", "halt", *of_keys)
    listed = " ".join(terminal("queues", "list", "-o", "wide").out.split())
    assert "HALT" in listed
    assert "1 limit key has an override, with weights acme=3, bell=0.5" in listed
    assert "acme=3, bell=0.5" in " ".join(terminal("queues", "show", "charges").out.split())
    left = terminal("queues", "set", "charges", "--clear", "key-weight", "--clear", "ordering", "--json").json
    assert (left["ordering"], left["keys"]["weights"], list(left["keys"]["overrides"])) == ("HOLD", {}, ["acme"])
    left = terminal("queues", "set", "charges", "--clear", "key", "--json").json
    assert left["keys"]["overrides"] == {}
    terminal("queues", "set", "charges", "--clear", "keys")
    assert "goes by deadlines" in terminal("queues", "set", "charges", "--order", "edf").out
    assert terminal("queues", "set", "charges", "--clear", "order", "--json").json["order"] == "AGED"
    both = terminal("queues", "set", "charges", "--clear", "key-weight", "--key-weight", "acme=2")
    assert (both.code, "leave one of them out" in both.err) == (2, True)


def test_a_pause_with_an_end_and_a_task_that_waits_for_it(terminal: Terminal, whole: Server) -> None:
    end = datetime(2030, 1, 1, 6, tzinfo=UTC).isoformat()
    terminal("queues", "pause", "mails", "--until", end)
    task = terminal("schedule", "mails", "x", "--at", "2030-01-01T00:00:00Z", "--json").json["task_id"]
    shown = terminal("get", task, "--json").json
    assert (shown["waiting_for"]["reason"], shown["waiting_for"]["until"]) == ("PAUSED", "2030-01-01T06:00:00.000Z")
    assert "sends nothing until 2030-01-01" in " ".join(terminal("get", task).out.split())
    past = terminal("queues", "pause", "mails", "--until", "2029-01-01T00:00:00Z")
    assert (past.code, "give a later instant" in past.err) == (2, True)


def test_a_breaker_is_given_and_taken_away(terminal: Terminal, whole: Server) -> None:
    assert terminal("queues", "set", "charges", "--breaker").out == "charges has a breaker.\n"
    assert terminal("queues", "show", "charges", "--json").json["breaker"] == "CLOSED"
    assert "CLOSED" in terminal("queues", "list").out
    assert terminal("queues", "set", "charges", "--no-limit").out == "charges has no limit.\n"
    assert terminal("queues", "show", "charges", "--json").json["breaker"] is None


def test_a_queue_finds_out_what_its_target_bears(terminal: Terminal, whole: Server) -> None:
    said = terminal("queues", "set", "exports", "--adaptive", "2-100", "--adaptive-target", "30s")
    assert said.out == "exports finds out how many it sends at a time: 2 of 2-100, target 30 s.\n"
    shown = terminal("queues", "show", "exports", "--json").json
    assert shown["adaptive"] == {"floor": 2, "ceiling": 100, "target_s": 30.0, "limit": 2}
    assert "2 of 2-100" in " ".join(terminal("queues", "list").out.split())
    for wrong in (["--adaptive", "5-2"], ["--adaptive", "many"], ["--adaptive-target", "3s"]):
        refused = terminal("queues", "set", "exports", *wrong)
        assert (refused.code, refused.err.count("\n")) == (2, 1), refused
    assert terminal("queues", "set", "exports", "--clear", "adaptive").out == "exports has no limit.\n"
    assert terminal("queues", "show", "exports", "--json").json["adaptive"] is None
