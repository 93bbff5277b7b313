"""`timerd tail`: a line for what was sent and for how it ended, until Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.cli.conftest import Terminal
from tests.cli.served import PATIENCE_S, TIMERD, Server
from tests.sdk.fake_server import FakeServer
from timerd.client import DeliveryEvent, DeliveryEventKind, SyncClient
from timerd.commands.tail import event_line, event_record

ID = "AQAAAaIhkK-gAABgQOOCjyNbUQCmecf9HKXb_PJ501EAAAAAaCe2e9w1M7k"
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SENT = DeliveryEvent(
    NOON + timedelta(milliseconds=3),
    *(DeliveryEventKind.SENT, "mails", ID, NOON, timedelta(milliseconds=3), 1, "worker-1", "a", None, None),
)
FAILED = replace(
    SENT,
    kind=DeliveryEventKind.FAILED,
    took=timedelta(seconds=12),
    next_attempt_time=NOON + timedelta(minutes=1),
    attempt=2,
)


def test_a_line_says_what_when_where_how_late_and_by_whom() -> None:
    assert event_line(SENT)[12:] == "  sent        mails                 +3ms  J501EAAAAA  worker-1"
    assert event_line(FAILED)[12:] == "  failed      mails                  12s  J501EAAAAA  #2  worker-1"
    assert event_line(SENT)[2:3] == event_line(SENT)[5:6] == ":"


def test_a_line_fits_80_columns() -> None:
    long = replace(FAILED, queue="q" * 128, worker="w\n" * 100, kind=DeliveryEventKind.GIVEN_BACK, attempt=12)
    assert cell_len(event_line(long)) <= 80
    assert "\n" not in event_line(long)


def test_a_program_gets_all_of_it() -> None:
    assert event_record(FAILED) == {
        **{"task_id": ID, "time": "2030-01-01T12:00:00.003Z", "kind": "FAILED", "queue": "mails"},
        **{"due_time": "2030-01-01T12:00:00.000Z", "lateness_ms": 3, "attempt": 2, "worker": "worker-1"},
        **{"instance": "a", "took_ms": 12_000, "next_attempt_time": "2030-01-01T12:01:00.000Z"},
    }


@contextmanager
def tailing(address: str, *options: str, state: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Ended as a person ends it, which is no failure."""
    environment = os.environ | ({"XDG_STATE_HOME": str(state)} if state is not None else {})
    process = subprocess.Popen(
        [*TIMERD, "tail", *options, "--server", address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    yield process
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (0, "")


def lines(process: subprocess.Popen[str], number: int) -> list[str]:
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(number)]


def deliver_until_seen(client: SyncClient, process: subprocess.Popen[str]) -> list[str]:
    """The tail may not listen yet when the first ones go."""
    seen: list[str] = []
    reading = threading.Thread(target=lambda: seen.extend(lines(process, 2)))
    reading.start()
    while reading.is_alive():
        client.schedule("mails", b"hello", delay=0)
        [received] = client.receive("mails", wait=10)
        client.finish(received)
        reading.join(0.3)
    return seen


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.stop()


def test_deliveries_are_shown_and_a_part_of_an_id_finds_its_task(
    served: Server, tmp_path: Path, terminal: Terminal
) -> None:
    state = tmp_path / "state"
    terminal.monkeypatch.setenv("XDG_STATE_HOME", str(state))
    terminal.monkeypatch.setenv("TIMERD_SERVER", served.address)
    with SyncClient(served.address) as client, tailing(served.address, "mails", state=state) as process:
        seen = deliver_until_seen(client, process)
    sent, acked = (line.split() for line in seen)
    assert [sent[1], sent[2], acked[1], acked[2]] == ["sent", "mails", "acked", "mails"]
    assert sent[4] == acked[4]
    assert "ACKED" in terminal("get", sent[4]).out


def test_as_json_each_is_an_object(served: Server) -> None:
    with SyncClient(served.address) as client, tailing(served.address, "--json") as process:
        seen = deliver_until_seen(client, process)
    assert [json.loads(line)["kind"] for line in seen] == ["SENT", "ACKED"]


def test_a_server_of_an_older_release_is_named_as_such(terminal: Terminal, server: FakeServer) -> None:
    ran = terminal("tail", "--timeout", "1s")
    assert (ran.code, ran.out) == (1, "")
    assert "This server is of a release that does not tell what it sends: upgrade it" in ran.err


def test_where_nobody_answers_it_says_so_at_once(terminal: Terminal) -> None:
    ran = terminal("tail", "--server", "127.0.0.1:1")
    assert (ran.code, ran.out) == (3, "")
    assert "Nothing answers at 127.0.0.1:1" in ran.err


def test_who_reads_no_more_ends_it_without_a_word(served: Server) -> None:
    """As `timerd tail | head -2`."""
    process = subprocess.Popen(
        [*TIMERD, "tail", "--server", served.address], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with SyncClient(served.address) as client:
        deliver_until_seen(client, process)
        process.stdout.close()
        while process.poll() is None:
            client.schedule("mails", b"hello", delay=0)
            client.finish(client.receive("mails", wait=10)[0])
    assert process.communicate()[1] == ""
