"""`timerd limits` against a whole server in a thread of its own."""

from __future__ import annotations

from tests.cli.conftest import Terminal
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
