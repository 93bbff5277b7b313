"""Whatever is typed wrongly is answered with one sentence on stderr and exit code 2, before any server is asked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from kombu import transport

from tests.cli.conftest import Terminal
from tests.sdk.refused_addresses import REFUSED

WRONG = [
    (("nonsense",), "No such command 'nonsense'"),
    (("get", "x", "--nonsense"), "No such option: --nonsense"),
    (("list", "-o", "tree"), "'-o': 'tree' is not one of 'table', 'wide', 'json', 'name'."),
    (("get",), "either an ID, or --key"),
    (("get", "x", "--key", "k"), "either an ID, or --key"),
    (("get", "x", "--server", "http://here"), "HOST:PORT"),
    (("get", "x", "--server", "here:70000"), "1 to 65,535"),
    (("get", "x", "--timeout", "long"), "is not a span of time"),
    (("get", "x", "--timeout", "0s"), "--timeout is 0s: give more than 0, for example 10s."),
    (("get", "x", "--tls-ca", "absent.pem"), "There is no file absent.pem"),
    (("get", "x", "--tls-cert", "absent.pem"), "both --tls-cert and --tls-key"),
    (("schedule",), "Missing argument 'QUEUE'"),
    (("schedule", "q", "hello"), "Neither --in nor --at"),
    (("schedule", "q", "hello", "--in", "5m", "--at", "2030-01-01T00:00Z"), "Both --in and --at"),
    (("schedule", "q", "hello", "--in", "5m", "--expire-in", "0s"), "--expire-in is 0s: give more than 0"),
    (("schedule", "q", "hello", "--in", "5m", "--soft-expire-in", "0s"), "--soft-expire-in is 0s: give more than 0"),
    (("queues", "set", "q"), "Say how the queue is limited"),
    (("queues", "set", "q", "--limit", "stripe", "--no-limit"), "--no-limit takes all limits away: give it alone"),
    (("schedule", "q", "hello", "--in", "5 parsecs"), "'5 parsecs' is not a span of time"),
    (("schedule", "q", "hello", "--in", "-5m"), "is not a span of time"),
    (("schedule", "q", "hello", "--in", "300y"), "is not a span of time"),
    (("schedule", "q", "hello", "--in", "99999999d"), "at most 200 years"),
    (("schedule", "q", "hello", "--at", "tomorrow"), "is not an ISO 8601 time"),
    (("schedule", "q", "hello", "--at", "2030-01-01T09:00"), "2030-01-01T09:00:00Z if you mean UTC"),
    (("schedule", "q", "--in", "5m"), "Give a PAYLOAD"),
    (("schedule", "q", "hello", "--in", "5m", "--label", "x"), "write --label name=value"),
    (("schedule", "q", "hello", "--in", "5m", "--priority", "11"), "--priority"),
    (("schedule", "q", "hello", "--in", "5m", "--on-conflict", "fight"), "keep, replace and reject"),
    (("schedule", "q", "--file", "absent", "--in", "5m"), "absent: No such file"),
    (("schedule", "q", "hello", "--file", "absent", "--in", "5m"), "neither a PAYLOAD nor --key"),
    (("cancel",), "either one or more IDs, or --key"),
    (("cancel", "x", "--key", "k"), "either one or more IDs, or --key"),
    (("reschedule", "--in", "5m"), "either an ID, or --key"),
    (("reschedule", "x"), "Neither --in nor --at"),
    (("schedule", "q", "-5", "--in", "5m"), "timerd schedule q --in 5m -- -5"),
    (("schedule", "q", "hello", "--in", "5m", "--key", ""), "--key is empty"),
    (("get", ""), "An ID or --key is empty"),
    (("get", "--key", ""), "An ID or --key is empty"),
    (("cancel", ""), "An ID or --key is empty"),
    (("cancel", "x", ""), "An ID or --key is empty"),
    (("cancel", "--key", ""), "An ID or --key is empty"),
    (("reschedule", "", "--in", "5m"), "An ID or --key is empty"),
    (("fire-now", ""), "An ID or --key is empty"),
    (("redrive", ""), "An ID or --key is empty"),
    (("fire-now",), "Missing argument 'ID...'"),
    (("list", "--state", "sleepy"), "'sleepy' is not a state"),
    (("list", "--limit", "0"), "--limit"),
    (("list", "--from", "2030-01-01"), "has no offset"),
    (("count", "--from", "2h", "--to", "1h"), "must be before"),
    (("purge",), "Nothing says which tasks to purge"),
    (("purge", "--all", "--queue", "q"), "--all means without any filter"),
    (("purge-dead", "--force"), "Nothing says which dead letters to purge"),
    (("redrive",), "either one or more IDs, or --queue"),
    (("redrive", "x", "--queue", "q"), "either one or more IDs, or --queue"),
    (("work",), "Missing argument 'QUEUE'"),
    (("work", "q", "--concurrency", "0"), "--concurrency"),
    (("serve", "--listen", "everywhere"), "HOST:PORT"),
    (("serve", "--listen", "0.0.0.0:7400"), "give --tls-cert and --tls-key, or --insecure"),
    (("serve", "--listen", "[::]:7400"), "give --tls-cert and --tls-key, or --insecure"),
    (("serve", "--listen", "example.org:7400"), "give --tls-cert and --tls-key, or --insecure"),
    (("serve", "--tls-cert", "a.pem"), "both --tls-cert and --tls-key"),
    (("serve", "--tls-cert", "a.pem", "--tls-key", "b.pem"), "There is no file a.pem"),
    (("serve", "--synchronous", "off"), "--synchronous is 'off': allowed are 'full' or 'normal'"),
    (("serve", "--drain", "soon"), "is not a span of time"),
    (("demo", "--tasks", "1"), "--tasks"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_wrong_input_is_answered_with_a_sentence(terminal: Terminal, arguments: tuple[str, ...], says: str) -> None:
    ran = terminal(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert says in ran.err
    assert ran.err.startswith("timerd: ")
    assert ran.err.count("\n") == 1
    assert ran.err.rstrip().endswith(".")


def test_a_naive_time_is_answered_with_the_local_and_the_utc_form(terminal: Terminal) -> None:
    terminal.monkeypatch.setenv("TZ", "Asia/Kolkata")
    import time

    time.tzset()
    try:
        ran = terminal("schedule", "q", "hello", "--at", "2030-07-01T09:00")
    finally:
        terminal.monkeypatch.delenv("TZ")
        time.tzset()
    assert "2030-07-01T09:00:00+05:30 if you mean this machine's local time" in ran.err
    assert "2030-07-01T09:00:00Z if you mean UTC" in ran.err


@pytest.mark.parametrize(
    ("command", "given"), [*((("list",), given) for given in REFUSED), (("work", "q"), "::1"), (("health",), "::1")]
)
def test_what_is_no_address_is_refused_as_by_the_clients(
    terminal: Terminal, command: tuple[str, ...], given: str
) -> None:
    ran = terminal(*command, f"--server={given}")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"timerd: `--server` is {given!r}: ")
    assert REFUSED[given] in ran.err


@pytest.mark.parametrize("command", [("get", "x"), ("list",), ("doctor",), ("work", "q"), ("purge", "--all")])
def test_a_server_that_is_not_there_is_exit_code_3(terminal: Terminal, command: tuple[str, ...]) -> None:
    ran = terminal(*command, "--server", "127.0.0.1:1")
    assert (ran.code, ran.out) == (3, "")
    assert "Nothing answers at 127.0.0.1:1 (connection refused)" in ran.err


@pytest.mark.parametrize("server", ["no-such-host.invalid:7400", "dns:///no-such-host.invalid:7400"])
def test_a_name_that_nobody_knows_is_said(terminal: Terminal, server: str) -> None:
    ran = terminal("get", "x", "--server", server)
    assert (ran.code, ran.out) == (3, "")
    assert f"Nothing answers at {server} (nobody knows that name)" in ran.err


def test_the_demo_refuses_a_folder_that_is_in_use(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    ran = terminal("demo", "--data", str(tmp_path))
    assert ran.code == 1
    assert "is in use" in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_what_nobody_foresaw_is_a_sentence_too(terminal: Terminal) -> None:
    def explode(json: bool) -> None:
        raise RuntimeError("the sky fell")

    terminal.monkeypatch.setattr("timerd.commands.version.Output", explode)
    ran = terminal("version")
    assert ran.code == 1
    assert "RuntimeError: the sky fell" in ran.err
    assert "Traceback" not in ran.err


def test_what_celery_needs_for_the_broker_is_named(terminal: Terminal) -> None:
    """Its own page of extras has it: `celery` alone comes without Redis."""
    terminal.monkeypatch.delitem(transport._transport_cache, "redis", raising=False)
    terminal.monkeypatch.delitem(sys.modules, "kombu.transport.redis", raising=False)
    terminal.monkeypatch.setitem(sys.modules, "redis", None)
    ran = terminal("celery", "run", "--broker", "redis://127.0.0.1:1/0")
    assert (ran.code, ran.out) == (1, "")
    assert "The library for redis:// is not installed here" in ran.err
    assert "pip install 'celery[redis]'" in ran.err
