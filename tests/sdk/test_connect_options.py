"""One object says where the server is, for clients and workers; its fields are keywords as well."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.sdk.fake_server import FakeServer
from timerd.client import Client, ClientKeywords, ConnectOptions, InvalidTask, SyncClient
from timerd.worker import Worker, WorkerKeywords

SOON = datetime(2030, 1, 1, tzinfo=UTC)
MAKERS: dict[str, Any] = {"Client": Client, "SyncClient": SyncClient, "Worker": Worker}


def test_each_option_is_a_keyword() -> None:
    names = {each.name for each in fields(ConnectOptions)}
    assert ClientKeywords.__optional_keys__ == names - {"target"}
    assert WorkerKeywords.__optional_keys__ == names - {"target", "timeout"}


async def test_a_client_is_made_from_options(server: FakeServer) -> None:
    options = ConnectOptions(server.target, namespace="n")
    async with Client(options) as client, Client(options, namespace="other") as other:
        await client.schedule("q", b"x", at=SOON)
        await other.schedule("q", b"x", at=SOON)
    assert [request.schedule.namespace for request in server.timers.requests()] == ["n", "other"]


@pytest.mark.parametrize("name", MAKERS)
def test_whoever_is_made_looks_at_the_options(name: str) -> None:
    make, good = MAKERS[name], ConnectOptions(timeout=5, namespace="n")
    make(good, namespace="m")
    wrong: dict[str, Any] = {"target": "https://h", "token": "t", "cert_file": Path("c"), "namespace": 5}
    for field, value in wrong.items():
        with pytest.raises(InvalidTask):
            make(replace(good, **{field: value}))
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'colour'"):
        make(colour="red")


def test_a_worker_has_no_time_out() -> None:
    with pytest.raises(TypeError, match=r"Worker\(\) got an unexpected keyword argument 'timeout'"):
        Worker(timeout=5)  # type: ignore[call-arg]


def test_a_token_is_not_shown() -> None:
    assert "t-secret" not in repr(ConnectOptions(ca_file="ca.pem", token="t-secret"))
