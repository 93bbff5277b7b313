"""`timerd audit`: what operators did, from the server, or from the file that one wrote."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Terminal
from timerd.services.transport.audit_log import AuditLog, read_audit_log
from timerd.testing import Server


def test_what_was_cut_off_is_unknown(tmp_path: Path, terminal: Terminal) -> None:
    log = tmp_path / "audit.log"
    written = AuditLog(log)
    asked = {"stage": "asked", "caller": "ops", "peer": "ipv4:1", "method": "Redrive", "request": {"queue": "mails"}}
    written.write({"at": "2026-06-01T09:00:00.000Z", "id": "1", **asked})
    written.write({"at": "2026-06-01T09:00:01.000Z", "id": "2", **asked, "method": "Purge"})
    written.write({"at": "2026-06-01T09:00:02.000Z", "id": "2", "stage": "ended", "outcome": "OK", "result": {"n": 3}})
    with log.open("a") as file:
        file.write('{"at": "2026-06-01T09:00:03.000Z", "id": "3", "sta')
    assert [(call.method, call.outcome) for call in read_audit_log(log)] == [("Redrive", "unknown"), ("Purge", "OK")]
    shown = terminal("audit", str(log)).out
    told = [line.split()[-4:] for line in shown.splitlines()[1:]]
    assert told == [["ops", "Redrive", "unknown", "queue=mails"], ["ops", "Purge", "OK", "queue=mails"]]
    assert "n=3" in terminal("audit", str(log), "-o", "wide").out
    assert max(map(len, shown.splitlines())) <= 80
    assert "n=3" not in terminal("audit", str(log), "--method", "Redrive", "--json").out
    assert terminal("audit", str(log), "--caller", "nobody").out == "Nothing was done.\n"
    absent = terminal("audit", str(log) + "x")
    assert (absent.code, "No such file" in absent.err) == (2, True)


def test_a_message_without_fields_is_shown_by_its_name(whole: Server, terminal: Terminal) -> None:
    assert terminal("queues", "set", "charges", "--breaker").code == 0
    shown = terminal("audit", "--method", "UpdateQueue")
    assert shown.out.splitlines()[1].split()[2:5] == ["OK", "queue=charges", "breaker"]
    (put,) = map(json.loads, terminal("audit", "--method", "UpdateQueue", "--json").out.splitlines())
    assert put["request"]["breaker"] == {}


def test_the_server_tells_what_was_done(whole: Server, terminal: Terminal) -> None:
    assert terminal("purge", "--queue", "mails", "--force").code == 0
    shown = terminal("audit")
    assert (shown.code, shown.err) == (0, "")
    assert max(map(len, shown.out.splitlines())) <= 80
    assert shown.out.splitlines()[1].split()[1:3] == ["Purge", "OK"]
    (purged,) = map(json.loads, terminal("audit", "--method", "Purge", "--json").out.splitlines())
    assert purged["request"]["filter"]["queue"] == "mails"
    assert terminal("audit", "--caller", "nobody").out == "Nothing was done.\n"
    assert terminal("audit", "--to", "2020-01-01T00:00:00Z").out == "Nothing was done.\n"
    both = terminal("audit", "x.log", "--from", "now")
    assert (both.code, "leave them out with FILE" in both.err) == (2, True)
