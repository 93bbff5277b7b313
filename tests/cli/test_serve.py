"""A real server process, met through the command line only: ready line, the main job, doctor, one server per folder,
SIGTERM, TLS, and the demo with its kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.served import PATIENCE_S, TIMERD, Server, timerd
from timerd.demo.processes import free_port

pytestmark = pytest.mark.process


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    running = Server(tmp_path)
    monkeypatch.setenv("TIMERD_SERVER", running.address)
    yield running
    running.process.kill()
    running.process.communicate()


def test_one_line_says_that_the_server_is_ready_and_sigterm_ends_it(server: Server) -> None:
    expected = f"timerd is ready on {server.address} (data: {server.data}, durability: fsync before OK)\n"
    assert server.ready == expected
    assert server.stop() == (0, f"timerd has stopped (data: {server.data})\n", "")


def test_the_main_job_from_the_shell(server: Server) -> None:
    scheduled = timerd("schedule", "mails", "hello ada", "--in", "1s", "--label", "to=ada", "--json").json
    later = timerd("schedule", "mails", "later", "--in", "1h", "--key", "k1", "--json").json
    assert timerd("get", scheduled["task_id"], "--json").json["payload"] == "hello ada"
    listed = timerd("list", "--from", "now", "--to", "2h", "--json")
    assert {line["task_id"] for line in listed.lines} >= {later["task_id"]}
    worked = timerd("work", "mails", "--count", "1", "--exec", 'read text; echo "$text for $TIMERD_TASK_ID"; exit 0')
    # A command that reads to the end of its input sees no newline there, so `read` keeps what it got.
    assert worked.out == f"hello ada for {scheduled['task_id']}\n"
    assert timerd("get", scheduled["task_id"], "--json").json["state"] == "ACKED"
    assert timerd("cancel", scheduled["task_id"], "--json").json["outcome"] == "ALREADY_FIRED"
    moved = timerd("reschedule", later["task_id"], "--in", "2h", "--json").json
    assert moved["fire_time"] > later["fire_time"]
    assert timerd("cancel", "--key", "k1", "--json").json["outcome"] == "CANCELLED"


def test_a_rejected_task_is_a_dead_letter_and_lives_again(server: Server) -> None:
    task_id = timerd("schedule", "mails", "bad", "--in", "0s", "--json").json["task_id"]
    worked = timerd("work", "mails", "--count", "1", "--exec", "echo no such address >&2; exit 65")
    assert worked.code == 0
    letter = timerd("dead-letters", "--queue", "mails", "--json").json
    assert (letter["task_id"], letter["last_error"]) == (task_id, "exit code 65: no such address")
    assert timerd("redrive", task_id, "--json").json == {"redriven": 1, "missing": [], "refused": {}}
    again = timerd("redrive", task_id, "nonsense", "--json")
    assert (again.code, again.json) == (1, {"redriven": 0, "missing": [task_id, "nonsense"], "refused": {}})
    assert "2 of 2 are no dead letters" in again.err
    assert timerd("work", "mails", "--count", "1").out == "bad\n"


def test_a_file_in_bulk_is_counted_and_purged(server: Server) -> None:
    lines = "".join(f"{number}\n" for number in range(3000))
    assert (
        timerd("schedule", "bulk", "--file", "-", "--in", "30m", stdin=lines).out == "Scheduled 3,000 tasks on bulk.\n"
    )
    span = ("--queue", "bulk", "--from", "now", "--to", "1h", "--json")
    assert timerd("count", *span).json == {"count": 3000, "estimated": False}
    assert timerd("purge", *span).json == {"purged": 3000, "dry_run": True, "in_hand": 0}
    assert timerd("purge", *span, "--force").json == {"purged": 3000, "dry_run": False, "in_hand": 0}
    assert timerd("count", *span).json["count"] == 0


def test_a_file_with_a_bad_line_says_which(server: Server, tmp_path: Path) -> None:
    """Whether the server finds it bad or the line cannot even be sent."""
    lines = tmp_path / "lines"
    for size, says, stored in (
        (70_000, "at most 65,536 are allowed", 2),
        (2 << 20, "no server takes more. Lines stored before that: 1", 1),
    ):
        lines.write_text(f"good\n{'x' * size}\ngood\n")
        ran = timerd("schedule", "bulk", "--file", str(lines), "--in", "30m", "--json")
        assert ran.code == 2
        assert f"{lines}, line 2: The payload has " in ran.err
        assert says in ran.err
        assert [line["outcome"] for line in ran.lines].count("STORED") == stored


def test_doctor_finds_a_fresh_server_well(server: Server) -> None:
    ran = timerd("doctor", "--json")
    assert (ran.code, ran.json["findings"]) == (0, [])
    assert "FULL" in ran.json["durability"]
    assert "All is well." in timerd("doctor").out


def test_a_second_server_on_the_same_data_is_refused_with_a_sentence(server: Server) -> None:
    ran = timerd("serve", "--data", str(server.data), "--listen", f"127.0.0.1:{free_port()}")
    assert (ran.code, ran.out) == (1, "")
    assert str(server.data) in ran.err
    assert ran.err.count("\n") == 1


def test_a_port_in_use_is_refused_with_a_sentence(server: Server, tmp_path: Path) -> None:
    ran = timerd("serve", "--data", str(tmp_path / "other"), "--listen", server.address)
    assert (ran.code, ran.out) == (1, "")
    assert server.address in ran.err
    assert ran.err.count("\n") == 1


def test_a_server_with_tls_answers_those_who_trust_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-keyout", str(key), "-out", str(certificate)],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip(f"openssl cannot make a certificate here: {made.stderr.decode()[-200:]}")
    server = Server(tmp_path, "--tls-cert", str(certificate), "--tls-key", str(key))
    try:
        address = ("--server", server.address)
        assert timerd("doctor", *address, "--tls-ca", str(certificate), "--json").code == 0
        refused = timerd("doctor", *address, "--timeout", "1s")
        assert refused.code == 3
        assert "If the server uses TLS, name its certificate with `ca_file` (--tls-ca)" in refused.err
    finally:
        assert server.stop()[0] == 0


def test_ctrl_c_ends_a_worker_gracefully(server: Server) -> None:
    worker = subprocess.Popen(
        [*TIMERD, "work", "mails", "--exec", "cat; sleep 0.5; echo ' done'"], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    task_id = timerd("schedule", "mails", "hello", "--in", "0s", "--json").json["task_id"]
    assert os.read(worker.stdout.fileno(), 5) == b"hello"
    worker.send_signal(signal.SIGINT)
    out, _ = worker.communicate(timeout=PATIENCE_S)
    assert (worker.returncode, out) == (0, " done\n")
    assert timerd("get", task_id, "--json").json["state"] == "ACKED"


def test_the_demo_in_short_form_keeps_its_promises(tmp_path: Path) -> None:
    ran = timerd("demo", "--tasks", "400", "--seconds", "4", "--data", str(tmp_path / "demo"), "--json")
    report = json.loads(ran.out)
    assert report["violations"] == []
    assert (ran.code, report["holds"]) == (0, True)
    assert (report["scheduled"], report["early"], report["lost"]) == (400, 0, 0)
    assert [figure["name"] for figure in report["ledger"] if not figure["agrees"]] == []
