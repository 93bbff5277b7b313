"""`timerd limits` against a whole server in a thread of its own."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.cli.conftest import Terminal
from timerd.client import KeyAtLimit
from timerd.commands.limits import key_text
from timerd.testing import Server


def test_a_limit_that_two_queues_share(terminal: Terminal, whole: Server) -> None:
    assert terminal("limits", "list").out == "There are no limits.\n"
    said = terminal("limits", "set", "stripe", "--rate", "100/s", "--burst", "20", "--max-in-hand", "10")
    assert said.out == "What goes by stripe starts 100/s, 20 at once and has 10 in hand at most.\n"
    assert terminal("queues", "set", "charges", "--limit", "stripe").out == "charges goes by stripe.\n"
    both = terminal("queues", "set", "refunds", "--limit", "stripe", "--max-in-hand", "2", "--json").json
    assert (both["limits"], both["max_in_hand"]) == (["stripe"], 2)
    shown = terminal("limits", "show", "stripe", "--json").json
    assert (shown["queues"], shown["rate"], shown["in_hand"]) == (["charges", "refunds"], "100/s", 0)
    assert "charges, refunds" in terminal("limits", "show", "stripe").out
    assert "100/s" in terminal("limits", "list").out
    listed = terminal("limits", "rm", "stripe")
    assert (listed.code, "is listed by 'charges', 'refunds'" in " ".join(listed.err.split())) == (1, True)
    for queue in ("charges", "refunds"):
        terminal("queues", "set", queue, "--no-limit")
    assert terminal("limits", "rm", "stripe").out == "stripe is deleted.\n"
    assert terminal("limits", "show", "stripe").code == 1


def test_a_limit_that_each_key_has_for_itself(terminal: Terminal, whole: Server) -> None:
    said = terminal(
        "limits", "set", "partner", "--max-in-hand", "10", "--keyed", "--key", "acme=20", "--key", "free=any"
    )
    sentence = (
        "Of what goes by partner each limit key, but for 2 limit keys with an override, has 10 in hand at most.\n"
    )
    assert said.out == sentence
    shown = terminal("limits", "show", "partner", "--json").json
    assert (shown["keyed"], shown["max_in_hand"], shown["overrides"]["free"]) == (True, 10, None)
    assert shown["overrides"]["acme"]["max_in_hand"] == 20
    assert (shown["keys_at_limit"], shown["keys_at_limit_count"]) == ([], 0)
    people = terminal("limits", "show", "partner").out
    assert "each limit key" in people
    assert "acme has 20 in hand at most" in people
    assert "free has no limit" in people
    assert terminal("limits", "list", "--json").json["keyed"]
    assert "each limit key" in terminal("limits", "list").out
    wrong = terminal("limits", "set", "partner", "--max-in-hand", "10", "--key", "acme=20")
    assert (wrong.code, "add --keyed, or leave --key out" in " ".join(wrong.err.split())) == (2, True)


def test_what_is_said_of_a_key_that_is_at_its_limit() -> None:
    assert key_text(KeyAtLimit("acme", in_hand=10, waiting=1)) == "acme has 10 in hand, and 1 due task waits"
    instant = datetime(2030, 1, 1, tzinfo=UTC)
    said = key_text(KeyAtLimit("acme", 0, 2, instant, throttled=True))
    assert said.startswith("acme is held, since a handler was throttled, and has 0 in hand, and 2 due tasks wait; the ")
    assert said.endswith(instant.astimezone().isoformat(sep=" ", timespec="milliseconds"))
