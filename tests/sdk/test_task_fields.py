"""A field of a task: as an option, as a keyword and as an item's own, and what it takes to add one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.fake_server import FakeServer
from timerd.client import Client, InvalidTask, Item, RetryPolicy, TaskInfo, TaskKeywords, TaskOptions
from timerd.sdk.values.task_fields import FIELDS, Template
from timerd.v1 import task_pb2

ROOT = Path(__file__).parents[2]
MOST_FILES = 5
SOON = datetime.now(UTC) + timedelta(minutes=5)
GIVEN: TaskKeywords = {
    "labels": {"tenant": "7"},
    "content_type": "application/json",
    "priority": 4,
    "retry": RetryPolicy(max_attempts=3),
    "expire_at": SOON + timedelta(hours=1),
    "soft_expire_at": SOON + timedelta(minutes=1),
    "traceparent": "00-1-2-01",
    "expire_after": timedelta(minutes=2),
    "soft_expire_after": 90,
    "keep_result": 60,
    "stall_timeout": 30,
    "on_end": "ends",
}
# What each file needs for a field `colour` that callers give, the store keeps, and `get` and `list` show.
COLOUR: dict[str, list[tuple[str, str]]] = {
    "proto/timerd/v1/task.proto": [
        ("  string ordering_key = 10;\n", "  string colour = 98;\n"),
        ("  Waiting waiting_for = 18;\n", "  string colour = 99;\n"),
    ],
    "timerd/model/task.py": [('    soft_expire_at_ms: int = 0\n    traceparent: str = ""\n', '    colour: str = ""\n')],
    "timerd/services/calls/templates.py": [("        _traceparent(wire.traceparent),\n", "        wire.colour,\n")],
    "timerd/services/calls/replies.py": [
        ("    task.traceparent = template.traceparent\n", "    task.colour = template.colour\n")
    ],
    "timerd/sdk/values/task_fields.py": [
        ('    soft_expire_at: datetime | None = None\n    traceparent: str = ""\n', '    colour: str = ""\n'),
        ("    soft_expire_at: datetime | None\n    traceparent: str\n", "    colour: str\n"),
        ("    traceparent: str | None = None\n", "    colour: str | None = None\n"),
        ('    soft_expire_at_ms: int | None = None\n    traceparent: str = ""\n', '    colour: str = ""\n'),
        ('    "traceparent": _plain("traceparent", text),\n', '    "colour": _plain("colour", text),\n'),
        ("    soft_expire_time: datetime | None\n    traceparent: str\n", "    colour: str\n"),
        ("            traceparent=task.traceparent,\n", "            colour=task.colour,\n"),
    ],
}
PROGRAM = """
import asyncio, sys
import timerd.testing
from timerd.client import Item, TaskOptions

async def main():
    async with timerd.testing.Server(data=sys.argv[1]) as server:
        client = server.client()
        tasks = [
            await client.schedule("q", b"x", delay=60, colour="red"),
            await client.schedule("q", b"x", delay=60, options=TaskOptions(colour="blue")),
            *await client.schedule_many("q", [(b"x", 60), Item(b"x", delay=60, colour="green")], colour="grey"),
            *await client.schedule_columns("q", [b"x"], [int(server.now.timestamp()) * 1000 + 60_000], colour="black"),
        ]
        await server.restart()
        print(*[(await client.get(task.id)).colour for task in tasks])

asyncio.run(main())
"""


def test_each_field_stands_everywhere() -> None:
    names = set(FIELDS)
    assert {each.name for each in fields(TaskOptions)} == names
    assert TaskKeywords.__optional_keys__ == names
    assert {each.name for each in fields(Item)} == names | {"payload", "at", "delay", "key"}
    assert {field.part for field in FIELDS.values()} == {*Template._fields} - {"queue", "on_conflict"}
    shown = {each.name.removesuffix("_time").removesuffix("_at_ms") for each in fields(TaskInfo)}
    # A stored task does not show its retry policy, and of spans the instants that follow.
    hidden = {"retry", "expire_after", "soft_expire_after"}
    assert {name.removesuffix("_at") for name in names} - shown == hidden


async def sent(client: Client, server: FakeServer, way: str) -> task_pb2.TaskTemplate:
    """The template of a task that is scheduled in this way."""
    ways: dict[str, Any] = {
        "keywords": lambda: client.schedule("q", b"x", at=SOON, **GIVEN),
        "options": lambda: client.schedule("q", b"x", at=SOON, options=TaskOptions(**GIVEN)),
        "many": lambda: client.schedule_many("q", [(b"x", SOON)], **GIVEN),
        "many by options": lambda: client.schedule_many("q", [(b"x", SOON)], options=TaskOptions(**GIVEN)),
        "columns": lambda: client.schedule_columns("q", [b"x"], [2_000_000_000_000], **GIVEN),
        "columns by options": lambda: client.schedule_columns(
            "q", [b"x"], [2_000_000_000_000], options=TaskOptions(**GIVEN)
        ),
        "item": lambda: client.schedule_many("q", [Item(b"x", at=SOON, **GIVEN)]),
    }
    await ways[way]()
    order = server.timers.requests()[-1].schedule
    template = order.items.items[0].template if way == "item" else order.template
    template.on_conflict = task_pb2.CONFLICT_POLICY_UNSPECIFIED
    return template


@pytest.mark.parametrize("way", ["options", "many", "many by options", "columns", "columns by options", "item"])
async def test_however_it_is_given_it_is_the_same(client: Client, server: FakeServer, way: str) -> None:
    as_keywords = await sent(client, server, "keywords")
    assert as_keywords.labels == {"tenant": "7"}
    assert await sent(client, server, way) == as_keywords


async def test_a_keyword_wins_over_the_options(client: Client, server: FakeServer) -> None:
    options = TaskOptions(priority=4, content_type="text/plain", labels={"a": "b"})
    await client.schedule("q", b"x", at=SOON, options=options, priority=0, labels=None)
    template = server.timers.requests()[0].schedule.template
    assert (template.priority, template.content_type, dict(template.labels)) == (0, "text/plain", {})


async def test_what_is_no_field_and_no_options_is_refused(client: Client, server: FakeServer) -> None:
    calls: dict[str, Any] = {
        "schedule": client.schedule("q", b"x", delay=1, colour="red"),  # type: ignore[call-arg]
        "schedule_many": client.schedule_many("q", [(b"x", 1)], colour="red"),  # type: ignore[call-arg]
        "schedule_columns": client.schedule_columns("q", [b"x"], [1], on_conflict="keep"),  # type: ignore[call-arg]
    }
    for name, call in calls.items():
        with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument"):
            await call
    with pytest.raises(InvalidTask, match="`options` is a TaskOptions, not"):
        await client.schedule("q", b"x", delay=1, options={"priority": 1})  # type: ignore[arg-type]
    assert server.timers.received == []


def changed(folder: Path) -> None:
    """A copy of the sources in which a task has a colour."""
    for part in ("timerd", "proto", ".ci"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file, additions in COLOUR.items():
        source = (folder / file).read_text()
        for line, added in additions:
            assert source.count(line) == 1, f"{file}: {line!r} stands there {source.count(line)} times"
            source = source.replace(line, line + added)
        (folder / file).write_text(source)


def run(folder: Path, *command: str) -> str:
    """In the copy, of which all modules come."""
    done = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_new_field_touches_five_files(tmp_path: Path) -> None:
    """What is generated from the definition is not counted. A field that handlers see stands in three more:
    work_service.proto, services/work/deliver_wire.py and sdk/values/deliveries.py."""
    assert len(COLOUR) <= MOST_FILES
    changed(tmp_path)
    run(tmp_path, ".ci/proto_rules.py", "--write")
    assert run(tmp_path, "-c", PROGRAM, str(tmp_path / "data")).split() == ["red", "blue", "grey", "green", "black"]
