"""`timerd audit`: what operators did, from the file that a server wrote."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Terminal
from timerd.services.transport.audit_log import AuditLog, read_audit_log


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
