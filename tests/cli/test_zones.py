"""`timerd zones` against a whole server in a thread of its own."""

from __future__ import annotations

from tests.cli.conftest import Terminal
from timerd.adapters.zones import tzdata_version
from timerd.testing import Server

DAILY = ("--queue", "mails", "--cron", "0 9 * * *", "--zone", "Europe/Berlin")


def test_a_sweep_is_asked_for(terminal: Terminal, whole: Server) -> None:
    in_force = f"tzdata {tzdata_version()} is in force"
    assert f"{in_force}: there is nothing to arm anew." in terminal("zones", "sweep").out
    terminal("schedules", "create", "report", *DAILY)
    assert f"{in_force}: schedules of Europe/Berlin are armed anew." in terminal("zones", "sweep", "Europe/Berlin").out
    assert terminal("zones", "sweep", "--json").json == {"tzdata": tzdata_version(), "zones": ["Europe/Berlin"]}


def test_a_zone_that_no_schedule_has_is_a_sentence(terminal: Terminal, whole: Server) -> None:
    ran = terminal("zones", "sweep", "Europe/Paris")
    assert ran.code != 0
    assert "No schedule has the zone 'Europe/Paris': name zones that schedules have, or none." in ran.err
