"""The command line against a real server: what tests/cli shows of one that answers from a script, here in earnest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.process.children import Child, Server, run_cli
from tests.process.conftest import Children
from tests.process.waiting import until

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def address(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TIMERD_SERVER", server.address)
    return server.address


def ok(*arguments: str, stdin: str = "") -> str:
    done = run_cli(*arguments, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, ""), (arguments, done)
    return done.stdout


def records(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ok(*arguments, "--json").splitlines()]


def record(*arguments: str) -> dict[str, Any]:
    [one] = records(*arguments)
    return one


def refused(code: int, *arguments: str) -> str:
    """One sentence on stderr, nothing on stdout."""
    done = run_cli(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), (arguments, done)
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_task_from_schedule_to_cancel(address: str) -> None:
    task_id = record("schedule", "mails", "hello", "--in", "1h", "--label", "to=ada", "--priority", "3")["task_id"]
    assert "mails" in ok("get", task_id)
    assert record("get", task_id)["priority"] == 3
    assert [each["task_id"] for each in records("list", "--queue", "mails", "--label", "to=ada")] == [task_id]
    assert records("list", "--queue", "mails", "--label", "to=bob") == []
    assert task_id in ok("list")
    before = record("get", task_id)["fire_time"]
    assert record("reschedule", task_id, "--in", "30m")["fire_time"] < before
    assert record("count", "--queue", "mails", "--from", "now", "--to", "2h") == {"count": 1, "estimated": False}
    assert record("cancel", task_id)["outcome"] == "CANCELLED"
    assert record("get", task_id)["state"] == "CANCELLED"
    assert record("count", "--queue", "mails", "--from", "now", "--to", "2h")["count"] == 0
    assert [each["task_id"] for each in records("list", "--state", "cancelled")] == [task_id]
    assert record("cancel", task_id)["outcome"] == "ALREADY_CANCELLED"


def test_keys_keep_replace_and_reject(address: str) -> None:
    first = record("schedule", "mails", "one", "--in", "1h", "--key", "ada")["task_id"]
    kept = record("schedule", "mails", "two", "--in", "1h", "--key", "ada", "--on-conflict", "keep")
    assert (kept["task_id"], kept["outcome"]) == (first, "KEPT")
    assert "ada" in refused(1, "schedule", "mails", "two", "--in", "1h", "--key", "ada")
    new = record("schedule", "mails", "three", "--in", "1h", "--key", "ada", "--on-conflict", "replace")["task_id"]
    assert record("get", "--key", "ada")["payload"] == "three"
    assert record("get", first)["state"] == "CANCELLED"
    assert record("get", new)["state"] == "PENDING"


def test_a_command_that_fails_is_tried_again_and_sees_its_attempt(address: str, tmp_path: Path) -> None:
    task_id = record("schedule", "jobs", "x", "--in", "0s", "--backoff", "50ms")["task_id"]
    script = f'echo "$TIMERD_ATTEMPT" >> {tmp_path / "attempts"}; test "$TIMERD_ATTEMPT" -ge 3'
    done = run_cli("work", "jobs", "--count", "3", "--exec", script, "--json")
    worked = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line.count("failed: exit code 1") for line in done.stderr.splitlines()] == [1, 1]
    assert [line["outcome"] for line in worked] == ["failed", "failed", "done"]
    assert (tmp_path / "attempts").read_text().split() == ["1", "2", "3"]
    assert record("get", task_id)["state"] == "ACKED"


def test_used_up_attempts_end_as_a_dead_letter_that_redrive_of_the_queue_revives(address: str) -> None:
    task_ids = {
        record("schedule", "jobs", f"bad {number}", "--in", "0s", "--max-attempts", "1")["task_id"]
        for number in range(2)
    }
    run_cli("work", "jobs", "--count", "2", "--exec", "echo broken >&2; exit 1")
    until(lambda: len(records("dead-letters", "--queue", "jobs")) == 2, "both are dead letters")
    letters = records("dead-letters", "--queue", "jobs")
    assert {letter["task_id"] for letter in letters} == task_ids
    assert {(letter["attempts"], letter["last_error"]) for letter in letters} == {(1, "exit code 1: broken")}
    assert "broken" in ok("dead-letters")
    assert record("redrive", "--queue", "jobs") == {"redriven": 2}
    assert records("dead-letters") == []
    assert sorted(ok("work", "jobs", "--count", "2").splitlines()) == ["bad 0", "bad 1"]
    assert {record("get", task_id)["state"] for task_id in task_ids} == {"ACKED"}


def test_a_worker_has_a_task_in_flight(address: str, tmp_path: Path, children: Children) -> None:
    task_id = record("schedule", "jobs", "slow", "--in", "0s")["task_id"]
    script = f"touch {tmp_path / 'begun'}; echo begun; while test ! -e {tmp_path / 'end'}; do sleep 0.05; done"
    worker = children.own(Child(["-m", "timerd.cli", "work", "jobs", "--count", "1", "--exec", script], tmp_path / "e"))
    worker.start()
    try:
        until((tmp_path / "begun").exists, "the command runs")
        assert record("get", task_id)["state"] == "IN_FLIGHT"
        assert "worker" in refused(1, "reschedule", task_id, "--in", "1h")
        cancelled = run_cli("cancel", task_id, "--json")
        assert (cancelled.returncode, json.loads(cancelled.stdout)["outcome"]) == (1, "IN_FLIGHT")
    finally:
        (tmp_path / "end").touch()
    assert worker.wait() == 0


def test_purge_removes_what_it_counted(address: str) -> None:
    ok("schedule", "bulk", "--file", "-", "--in", "30m", stdin="a\nb\nc\n")
    ok("schedule", "other", "kept", "--in", "30m")
    assert "Nothing was" in ok("purge", "--queue", "bulk")
    assert record("purge", "--queue", "bulk", "--force") == {"purged": 3, "dry_run": False}
    assert [each["queue"] for each in records("list")] == ["other"]
    assert {each["queue"] for each in records("list", "--state", "purged")} == {"bulk"}


def test_doctor_tells_of_the_engine(address: str) -> None:
    ok("schedule", "mails", "hello", "--in", "0s")
    ok("work", "mails", "--count", "1")
    report = record("doctor")
    assert report["findings"] == []
    assert "fsync before OK" in report["durability"]
    shown = ok("doctor")
    assert "All is well." in shown


@pytest.mark.parametrize(
    ("code", "arguments", "words"),
    [
        (2, ("schedule", "no spaces", "x", "--in", "1s"), "no spaces"),
        (2, ("schedule", "q", "x"), "--in"),
        (2, ("schedule", "q", "x", "--in", "1s", "--at", "2030-01-01T00:00Z"), "--at"),
        (2, ("schedule", "q", "x", "--in", "200y"), "year"),
        (2, ("schedule", "q", "x" * 70_000, "--in", "1s"), "payload"),
        (2, ("list", "--state", "sleeping"), "sleeping"),
    ],
)
def test_wrong_input_is_a_sentence(address: str, code: int, arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(code, *arguments)


def test_what_is_not_there_is_a_sentence(address: str, server: Server) -> None:
    task_id = record("schedule", "mails", "hello", "--in", "1h")["task_id"]
    forged = task_id[:-2] + ("AA" if task_id[-2:] != "AA" else "BB")
    assert "no such task" in refused(1, "get", forged).lower()
    assert "no such task" in refused(1, "get", task_id, "--namespace", "other").lower()
    assert json.loads(run_cli("cancel", forged, "--json").stdout)["outcome"] == "NOT_FOUND"
    assert server.terminate() == 0
    assert server.address in refused(3, "get", task_id, "--timeout", "500ms")
