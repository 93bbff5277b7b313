"""Celery's canvas with delays: each case gives what it gives without timerd, and what is for later went through timerd.

All of them are begun twice, on an application with timerd and on one of Celery alone, each with a worker of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from celery.exceptions import TimeoutError as CeleryTimeout
from celery.result import AsyncResult, GroupResult

from tests.contrib.celery import shop
from tests.contrib.celery.cases import CASES, Tasks
from tests.contrib.celery.conftest import Publishing, Shop, Working
from tests.process.children import Child, Server
from tests.process.conftest import Children
from tests.process.waiting import until
from timerd.client import NotFound, SyncClient

pytestmark = [pytest.mark.process, pytest.mark.timeout(280)]
PATIENCE_S = 90


class Played(NamedTuple):
    """All cases as they were begun, with timerd and without."""

    later: dict[str, Any]
    plain: dict[str, Any]
    client: SyncClient


@pytest.fixture(scope="module")
def played(
    module_children: Children, folder: Path, timerd_server: Server, publisher: Publishing, running_shop: Shop
) -> Iterator[Played]:
    del publisher
    plain_url = running_shop.url[:-1] + "1"
    servers = {running_shop.url: timerd_server.address, plain_url: ""}
    for url, address in servers.items():
        _started(module_children.own(Working(folder, url, address)))
    plain = shop.make(plain_url)
    begun = [{name: case.begin(Tasks(app)) for name, case in CASES.items()} for app in (plain, running_shop.app)]
    yield Played(begun[1], begun[0], running_shop.client)
    shop.close(plain)


def _started(worker: Child) -> None:
    worker.start()


def outcome(result: Any) -> Any:  # noqa: ANN401 - a value of a task
    """What it gives or raises, and what its callbacks do, but for what differs from run to run."""
    try:
        return result.get(timeout=PATIENCE_S), [outcome(each) for each in callbacks(result)]
    except CeleryTimeout:
        raise
    except Exception as error:  # noqa: BLE001 - to be compared
        return type(error), str(error).replace(getattr(result, "id", ""), "ID")


def callbacks(result: Any) -> list[Any]:  # noqa: ANN401 - any result
    """Known when it has ended."""
    return list(result.children or ()) if isinstance(result, AsyncResult) else []


def ids(result: Any) -> set[str]:  # noqa: ANN401 - any result
    """Of all tasks that the caller knows of: it, those before it, those of a group, and its callbacks."""
    if isinstance(result, GroupResult):
        return set().union(ids(result.parent), *map(ids, result.results))
    if not isinstance(result, AsyncResult):
        return set()
    return {result.id, *ids(result.parent), *(each.id for each in callbacks(result))}


def went_through(client: SyncClient, task_ids: set[str]) -> int:
    found = 0
    for task_id in task_ids:
        try:
            task = client.get(key=f"celery/{task_id}")
        except NotFound:
            continue
        until(lambda: client.get(task.id).state.name == "ACKED", "it is acknowledged")  # noqa: B023 - used at once
        found += 1
    return found


@pytest.mark.parametrize("name", CASES)
def test_as_celery_alone(played: Played, name: str) -> None:
    assert outcome(played.later[name]) == outcome(played.plain[name])
    assert went_through(played.client, ids(played.later[name])) == CASES[name].later


def test_a_task_that_calls_another_is_its_root(played: Played, running_shop: Shop) -> None:
    del played
    parent = Tasks(running_shop.app).parent.delay()
    child = parent.get(timeout=PATIENCE_S)
    assert running_shop.app.AsyncResult(child).get(timeout=PATIENCE_S) == parent.id
    assert went_through(running_shop.client, {child}) == 1
