"""The command line against a real server: what tests/cli shows of one that answers from a script, here in earnest."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Ran, Terminal
from tests.process.children import Child, Server
from tests.process.conftest import Children
from tests.process.waiting import until

pytestmark = pytest.mark.process


def wrong_in(err: str) -> list[str]:
    """What stands there beside the line by which a worker says that it is there."""
    return [line for line in err.splitlines() if not line.startswith("timerd: The worker ")]


class Cli:
    """Commands in this process, because each new one costs a third of a second; the server is a process of its own."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._terminal = Terminal(capsys, monkeypatch)

    def __call__(self, *arguments: str) -> Ran:
        return self._terminal(*arguments)

    def ok(self, *arguments: str) -> str:
        ran = self(*arguments)
        assert (ran.code, wrong_in(ran.err)) == (0, []), (arguments, ran)
        return ran.out

    def records(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ok(*arguments, "--json").splitlines()]

    def record(self, *arguments: str) -> dict[str, Any]:
        [one] = self.records(*arguments)
        return one

    def refused(self, code: int, *arguments: str) -> str:
        """One sentence on stderr, nothing on stdout."""
        ran = self(*arguments)
        assert (ran.code, ran.out) == (code, ""), (arguments, ran)
        assert "Traceback" not in ran.err
        assert ran.err.count("\n") == 1
        return ran.err


@pytest.fixture
def cli(server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    log = logging.getLogger("timerd")
    kept = (log.handlers[:], log.level)
    monkeypatch.setenv("TIMERD_SERVER", server.address)
    yield Cli(capsys, monkeypatch)
    log.handlers[:] = kept[0]
    log.setLevel(kept[1])


def test_a_task_from_schedule_to_cancel(cli: Cli) -> None:
    task_id = cli.record("schedule", "mails", "hello", "--in", "1h", "--label", "to=ada", "--priority", "3")["task_id"]
    assert "mails" in cli.ok("get", task_id)
    assert cli.record("get", task_id)["priority"] == 3
    assert [each["task_id"] for each in cli.records("list", "--queue", "mails", "--label", "to=ada")] == [task_id]
    assert cli.records("list", "--queue", "mails", "--label", "to=bob") == []
    assert task_id in cli.ok("list")
    before = cli.record("get", task_id)["fire_time"]
    assert cli.record("reschedule", task_id, "--in", "30m")["fire_time"] < before
    assert cli.record("count", "--queue", "mails", "--from", "now", "--to", "2h") == {"count": 1, "estimated": False}
    assert cli.record("cancel", task_id)["outcome"] == "CANCELLED"
    assert cli.record("get", task_id)["state"] == "CANCELLED"
    assert cli.record("count", "--queue", "mails", "--from", "now", "--to", "2h")["count"] == 0
    assert [each["task_id"] for each in cli.records("list", "--state", "cancelled")] == [task_id]
    assert cli.record("cancel", task_id)["outcome"] == "ALREADY_CANCELLED"


def test_keys_keep_replace_and_reject(cli: Cli) -> None:
    first = cli.record("schedule", "mails", "one", "--in", "1h", "--key", "ada")["task_id"]
    kept = cli.record("schedule", "mails", "two", "--in", "1h", "--key", "ada", "--on-conflict", "keep")
    assert (kept["task_id"], kept["outcome"]) == (first, "KEPT")
    assert "ada" in cli.refused(1, "schedule", "mails", "two", "--in", "1h", "--key", "ada")
    new = cli.record("schedule", "mails", "three", "--in", "1h", "--key", "ada", "--on-conflict", "replace")["task_id"]
    assert cli.record("get", "--key", "ada")["payload"] == "three"
    assert cli.record("get", first)["state"] == "CANCELLED"
    assert cli.record("get", new)["state"] == "PENDING"


def test_a_command_that_fails_is_tried_again_and_sees_its_attempt(cli: Cli, tmp_path: Path) -> None:
    task_id = cli.record("schedule", "jobs", "x", "--in", "0s", "--backoff", "50ms")["task_id"]
    script = f'echo "$TIMERD_ATTEMPT" >> {tmp_path / "attempts"}; test "$TIMERD_ATTEMPT" -ge 3'
    done = cli("work", "jobs", "--count", "3", "--exec", script, "--json")
    worked = [json.loads(line) for line in done.out.splitlines()]
    assert [line.count("failed: exit code 1") for line in wrong_in(done.err)] == [1, 1]
    assert [line["outcome"] for line in worked] == ["failed", "failed", "done"]
    assert (tmp_path / "attempts").read_text().split() == ["1", "2", "3"]
    assert cli.record("get", task_id)["state"] == "ACKED"


def test_used_up_attempts_end_as_a_dead_letter_that_redrive_of_the_queue_revives(cli: Cli) -> None:
    task_ids = {
        cli.record("schedule", "jobs", f"bad {number}", "--in", "0s", "--max-attempts", "1")["task_id"]
        for number in range(2)
    }
    cli("work", "jobs", "--count", "2", "--exec", "echo broken >&2; exit 1")
    until(lambda: len(cli.records("dead-letters", "--queue", "jobs")) == 2, "both are dead letters")
    dead_letters = cli.records("dead-letters", "--queue", "jobs")
    assert {letter["task_id"] for letter in dead_letters} == task_ids
    assert {(letter["attempts"], letter["last_error"]) for letter in dead_letters} == {(1, "exit code 1: broken")}
    assert "broken" in cli.ok("dead-letters")
    assert cli.record("redrive", "--queue", "jobs") == {"redriven": 2, "missing": [], "refused": {}}
    assert cli.records("dead-letters") == []
    assert sorted(cli.ok("work", "jobs", "--count", "2").splitlines()) == ["bad 0", "bad 1"]
    assert {cli.record("get", task_id)["state"] for task_id in task_ids} == {"ACKED"}


def test_a_worker_has_a_task_in_flight(cli: Cli, tmp_path: Path, children: Children) -> None:
    task_id = cli.record("schedule", "jobs", "slow", "--in", "0s")["task_id"]
    script = f"touch {tmp_path / 'begun'}; echo begun; while test ! -e {tmp_path / 'end'}; do sleep 0.05; done"
    worker = children.own(Child(["-m", "timerd.cli", "work", "jobs", "--count", "1", "--exec", script], tmp_path / "e"))
    worker.start()
    try:
        until((tmp_path / "begun").exists, "the command runs")
        assert cli.record("get", task_id)["state"] == "IN_FLIGHT"
        assert "worker" in cli.refused(1, "reschedule", task_id, "--in", "1h")
        cancelled = cli("cancel", task_id, "--json")
        assert (cancelled.code, json.loads(cancelled.out)["outcome"]) == (1, "IN_FLIGHT")
    finally:
        (tmp_path / "end").touch()
    assert worker.wait() == 0


def test_purge_removes_what_it_counted(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "three").write_text("a\nb\nc\n")
    cli.ok("schedule", "bulk", "--file", str(tmp_path / "three"), "--in", "30m")
    cli.ok("schedule", "other", "kept", "--in", "30m")
    assert "Nothing was" in cli.ok("purge", "--queue", "bulk")
    assert cli.record("purge", "--queue", "bulk", "--force") == {"purged": 3, "dry_run": False, "in_hand": 0}
    assert [each["queue"] for each in cli.records("list")] == ["other"]
    assert {each["queue"] for each in cli.records("list", "--state", "purged")} == {"bulk"}


def test_doctor_tells_of_the_engine(cli: Cli) -> None:
    cli.ok("schedule", "mails", "hello", "--in", "0s")
    cli.ok("work", "mails", "--count", "1")
    report = cli.record("doctor")
    assert report["findings"] == []
    assert "fsync before OK" in report["durability"]
    shown = cli.ok("doctor")
    assert "All is well." in shown


@pytest.mark.parametrize(
    ("code", "arguments", "words"),
    [
        (2, ("schedule", "no spaces", "x", "--in", "1s"), "no spaces"),
        (2, ("schedule", "q", "x"), "--in"),
        (2, ("schedule", "q", "x", "--in", "1s", "--at", "2030-01-01T00:00Z"), "--at"),
        (2, ("schedule", "q", "x", "--in", "40000d"), "year"),
        (2, ("schedule", "q", "x" * 70_000, "--in", "1s"), "payload"),
        (2, ("list", "--state", "sleeping"), "sleeping"),
    ],
)
def test_wrong_input_is_a_sentence(cli: Cli, code: int, arguments: tuple[str, ...], words: str) -> None:
    assert words in cli.refused(code, *arguments)


def test_what_is_not_there_is_a_sentence(cli: Cli, server: Server) -> None:
    task_id = cli.record("schedule", "mails", "hello", "--in", "1h")["task_id"]
    forged = task_id[:-2] + ("AA" if task_id[-2:] != "AA" else "BB")
    assert "there is no task" in cli.refused(1, "get", forged).lower()
    assert "there is no task" in cli.refused(1, "get", task_id, "--namespace", "other").lower()
    assert json.loads(cli("cancel", forged, "--json").out)["outcome"] == "NOT_FOUND"
    assert server.terminate() == 0
    assert server.address in cli.refused(3, "get", task_id, "--timeout", "500ms")
