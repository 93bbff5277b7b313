"""Rows that the next release wrote: read, carried and delivered by this one, with all that it does not know."""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fundamentals.conftest import Inbox
from timerd.adapters.sqlite.groups import checksum
from timerd.client import Client, TaskState
from timerd.model import codec
from timerd.sdk.values.errors import TimerdError
from timerd.testing import Server
from timerd.worker import Delivery, Reject, Retry

HEAD = struct.Struct("<III")
Stored = dict[str, Any]
# What a template and an extra of the next release have, and this one does not know.
NEW_IN_TEMPLATE = {"ordering_key": "x", "limits": {"pool": ["a", 2]}}
NEW_IN_POLICY = {"strategy": "even"}
NEW_IN_EXTRA = {"origin": "import"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
async def server(data: Path) -> AsyncIterator[Server]:
    async with Server(data=data) as running:
        yield running


def notes_of(keys: bytes) -> tuple[list[Stored], list[Stored]]:
    _, _, size = HEAD.unpack_from(keys)
    templates, extras = json.loads(keys[HEAD.size : HEAD.size + size])
    return templates, extras


def stored(data: Path) -> list[tuple[list[Stored], list[Stored]]]:
    """(templates, extras) of every row group in the file."""
    connection = sqlite3.connect(data / "timerd.db")
    keys = connection.execute("SELECT keys FROM groups UNION ALL SELECT keys FROM far_groups").fetchall()
    connection.close()
    return [notes_of(each) for (each,) in keys]


def rewrite(data: Path, change: Callable[[list[Stored], list[Stored]], None]) -> None:
    """As the next release would have written each row group."""
    connection = sqlite3.connect(data / "timerd.db", isolation_level=None)
    for table in ("groups", "far_groups"):
        for name, keys in connection.execute(f"SELECT id, keys FROM {table}").fetchall():
            count, prefixes, size = HEAD.unpack_from(keys)
            templates, extras = notes_of(keys)
            change(templates, extras)
            notes = json.dumps([templates, extras], separators=(",", ":")).encode()
            new = HEAD.pack(count, prefixes, len(notes)) + notes + keys[HEAD.size + size :]
            connection.execute(f"UPDATE {table} SET keys = ?, keys_crc = ? WHERE id = ?", (new, checksum(new), name))
    connection.close()


def of_the_next(templates: list[Stored], extras: list[Stored]) -> None:
    for template in templates:
        template.update(NEW_IN_TEMPLATE)
        template["retry"] = template.get("retry", {}) | NEW_IN_POLICY
    for extra in extras:
        extra.update(NEW_IN_EXTRA)


async def rewritten(server: Server, data: Path, change: Callable[[list[Stored], list[Stored]], None]) -> None:
    await server.stop()
    rewrite(data, change)
    await server.start()


async def test_a_task_with_an_unknown_field_comes_and_so_does_its_neighbour(
    server: Server, client: Client, inbox: Inbox, data: Path
) -> None:
    at = server.now + timedelta(minutes=30)
    await client.schedule("mails", b"old", at=at)
    await client.schedule("mails", b"new", at=at, labels={"of": "the next release"})

    def change(templates: list[Stored], _: list[Stored]) -> None:
        for template in templates:
            template.update({"ordering_key": "x"} if "labels" in template else {})

    await rewritten(server, data, change)
    await inbox.works("mails")
    await server.advance(hours=1)
    assert sorted(inbox.payloads) == [b"new", b"old"]
    assert inbox.times == [at, at]


async def test_unknown_fields_go_through_a_retry_a_move_a_dead_letter_and_a_redrive(
    server: Server, client: Client, inbox: Inbox, data: Path
) -> None:
    """Each step writes the row anew: the last one still says what the next release wrote. A key, so that the row has
    notes of its own from the start."""
    task = await client.schedule("mails", b"x", delay=600, key="of mine")
    await rewritten(server, data, of_the_next)
    await client.reschedule(task.id, delay=1_200)
    await rewritten(server, data, lambda _templates, _extras: None)
    failures: list[Exception] = [Retry(timedelta(seconds=60)), Reject("enough")]

    async def fails(_: Delivery) -> None:
        if failures:
            raise failures.pop(0)

    inbox.after = fails
    await inbox.works("mails")
    await server.advance(minutes=40)
    assert inbox.attempts == [1, 2]
    await client.redrive([task.id])
    await server.advance(minutes=40)
    assert inbox.attempts[2:] == [1]
    assert (await client.get(task.id)).state is TaskState.ACKED
    await server.stop()
    rows = [(t, e) for templates, extras in stored(data) for t in templates for e in extras]
    assert len(rows) >= 4
    for template, extra in rows:
        assert {name: template[name] for name in NEW_IN_TEMPLATE} == NEW_IN_TEMPLATE
        assert template["retry"]["strategy"] == "even"
        assert {name: extra[name] for name in ("key", "origin")} == {"key": "of mine", "origin": "import"}


async def test_unknown_fields_wait_in_the_backlog_with_their_task(
    server: Server, client: Client, inbox: Inbox, data: Path
) -> None:
    await client.schedule("mails", b"x", delay=60)
    await rewritten(server, data, of_the_next)
    await server.advance(hours=1)
    await inbox.works("mails")
    await server.advance(minutes=1)
    assert inbox.payloads == [b"x"]
    await server.stop()
    assert all(t["ordering_key"] == "x" for templates, _ in stored(data) for t in templates)


def needs_order(templates: list[Stored], _: list[Stored]) -> None:
    for template in templates:
        template.update({"ordering_key": "x", "needs": ["ordering"]} if "labels" in template else {})


async def test_what_a_row_needs_is_waited_for_and_the_rest_of_its_partition_is_not(
    server: Server, client: Client, inbox: Inbox, data: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """It is said once, counted, and advised about; a release that understands the row delivers it."""
    await client.schedule("mails", b"old", delay=60)
    new = await client.schedule("mails", b"new", delay=60, labels={"of": "the next release"})
    await client.schedule("mails", b"later", delay=120)
    await rewritten(server, data, needs_order)
    await inbox.works("mails")
    await server.advance(minutes=3)
    assert inbox.payloads == [b"old", b"later"]
    assert server.node.scheduler.held.foreign_rows() == 1
    [advice] = [each for each in (await server.node.engine.facts()).advice if "later release" in each]
    assert "ordering" in advice
    assert len([each for each in caplog.messages if "ordering" in each]) == 1
    with pytest.raises(TimerdError, match="needs ordering"):
        await client.reschedule(new.id, delay=60)
    await server.stop()
    monkeypatch.setattr(codec, "CAPABILITIES", codec.CAPABILITIES | {"ordering"})
    await server.start()
    await server.advance(minutes=1)
    assert inbox.payloads == [b"old", b"later", b"new"]
    assert (await client.get(new.id)).state is TaskState.ACKED


async def test_a_row_that_is_not_understood_can_be_cancelled(server: Server, client: Client, inbox: Inbox, data: Path,
    monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    task = await client.schedule("mails", b"new", delay=60, labels={"of": "the next release"})
    await rewritten(server, data, needs_order)
    await inbox.works("mails")
    await server.advance(minutes=10)
    await client.cancel(task.id)
    await server.stop()
    monkeypatch.setattr(codec, "CAPABILITIES", codec.CAPABILITIES | {"ordering"})
    await server.start()
    await server.advance(minutes=10)
    assert inbox.payloads == []
    assert (await client.get(task.id)).state is TaskState.CANCELLED
