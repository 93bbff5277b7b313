"""Quotas of namespaces: what is over one is refused before anything is stored, and says when there is room."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.fundamentals.quota_rig import Schedule, scheduling
from timerd.client import Overloaded
from timerd.config import ServerConfig
from timerd.model.errors import StartupError
from timerd.services.calls import quotas
from timerd.services.calls.quotas_file import read_quotas
from timerd.testing import Server

FILE = """
[shop]
tasks_per_s = 10
bytes_per_s = 1_000

["*"]
calls_per_s = 1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "quotas.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
async def server(file: Path) -> AsyncIterator[Server]:
    config = ServerConfig(listen="127.0.0.1:0", synchronous="normal", quotas_file=file)
    with patch.object(quotas, "LOOK_EVERY_S", 0.0):
        async with Server(config=config) as served:
            yield served


@pytest.fixture
async def schedule(server: Server) -> AsyncIterator[Schedule]:
    async with scheduling(server) as call:
        yield call


async def stored(server: Server, namespace: str) -> int:
    return len([task async for task in server.client(namespace=namespace).list()])


async def test_a_call_over_the_quota_stores_nothing_and_says_when_there_is_room(
    server: Server, schedule: Schedule
) -> None:
    assert (await schedule(10)).stored == 10
    with pytest.raises(Overloaded, match="may schedule 10 tasks a second") as refused:
        await schedule(5)
    assert (refused.value.reason, refused.value.field, refused.value.retry_after) == ("QUOTA", "namespace", 0.5)
    assert not refused.value.only_this_try
    assert await stored(server, "shop") == 10
    await server.advance(seconds=0.5)
    assert (await schedule(5)).stored == 5


async def test_the_repeat_of_a_call_that_was_stored_is_answered_as_the_first_time(
    server: Server, schedule: Schedule
) -> None:
    first = await schedule(10, request_id="once")
    assert await schedule(10, request_id="once") == first
    with pytest.raises(Overloaded):
        await schedule(10, request_id="twice")
    assert await stored(server, "shop") == 10


async def test_payloads_count_and_namespaces_do_not_share(server: Server, schedule: Schedule) -> None:
    """Each of those without a table of its own has what is given to all others."""
    assert (await schedule(1, size=900)).stored == 1
    with pytest.raises(Overloaded, match="1,000 bytes a second"):
        await schedule(1, size=200)
    for namespace in ("bank", "mill"):
        assert (await schedule(100, namespace)).stored == 100
        with pytest.raises(Overloaded, match="1 calls a second"):
            await schedule(1, namespace)
    counted = server.node.server.api.quotas
    assert counted.taken == {
        **{("shop", "calls"): 1, ("shop", "tasks"): 1, ("shop", "bytes"): 900},
        **{("*", "calls"): 2, ("*", "tasks"): 200, ("*", "bytes"): 200},
    }
    assert counted.refused == {("shop", "bytes"): 1, ("*", "calls"): 2}


async def test_the_file_is_taken_up_when_it_changes_and_a_wrong_one_changes_nothing(
    server: Server, schedule: Schedule, file: Path
) -> None:
    await schedule(10)
    replace(file, "[shop]\ntasks_per_second = 3\n")
    with pytest.raises(Overloaded):
        await schedule(1)
    replace(file, "[shop]\ntasks_per_s = 20\n")
    assert (await schedule(20)).stored == 20
    replace(file, "")
    assert (await schedule(1_000)).stored == 1_000


def replace(file: Path, text: str) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(text)
    os.replace(fresh, file)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[shop", "is not TOML"),
        ("tasks_per_s = 3", r"\[tasks_per_s\]: it stands outside of a table"),
        ("[shop]\ntask_per_s = 3", "the nearest is tasks_per_s"),
        ("[shop]\nburst_s = 3", "limits nothing"),
        ("[shop]\ntasks_per_s = 0", "write a whole number from 1 to"),
        ("[shop]\ntasks_per_s = 1\nburst_s = 1.5", "write a whole number from 1 to 3,600"),
        ('[""]\ntasks_per_s = 1', "it names no namespace"),
        ('["a b"]\ntasks_per_s = 1', "The namespace 'a b' is not allowed"),
    ],
)
def test_a_file_that_is_wrong_says_where(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "quotas.toml"
    path.write_text(text)
    with pytest.raises(StartupError, match=says):
        read_quotas(path)
