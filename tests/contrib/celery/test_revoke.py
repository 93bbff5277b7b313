"""`revoke` holds: what waits in timerd is cancelled there, and who waits for its result hears of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from celery import chord, group
from celery.exceptions import TaskRevokedError

from tests.contrib.celery import shop
from tests.contrib.celery.conftest import Publishing, Shop, Working
from tests.process.children import Server
from tests.process.conftest import Children
from timerd.client import TaskState

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(280),
    pytest.mark.usefixtures("working"),
    # Celery's backend of Redis calls it.
    pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning"),
]
FAR_S = 3600
PATIENCE_S = 90


@pytest.fixture(scope="module")
def working(
    module_children: Children, folder: Path, timerd_server: Server, publisher: Publishing, running_shop: Shop
) -> None:
    del publisher
    module_children.own(Working(folder, running_shop.url, timerd_server.address)).start()


def call(shop: Shop, name: str, *args: Any, countdown: float = FAR_S, **options: Any) -> Any:  # noqa: ANN401 - a result
    return shop.app.tasks[f"shop.{name}"].apply_async(args, countdown=countdown, **options)


def state(shop: Shop, task_id: str) -> TaskState:
    return shop.client.get(key=f"celery/{task_id}").state


def test_a_task_is_cancelled_and_its_result_says_so(running_shop: Shop) -> None:
    waiting = call(running_shop, "add", 1, 2)
    assert state(running_shop, waiting.id) is TaskState.PENDING
    waiting.revoke()
    assert state(running_shop, waiting.id) is TaskState.CANCELLED
    with pytest.raises(TaskRevokedError):
        waiting.get(timeout=PATIENCE_S)
    # Again it changes nothing.
    waiting.revoke()
    assert (waiting.state, state(running_shop, waiting.id)) == ("REVOKED", TaskState.CANCELLED)


def test_it_never_runs(running_shop: Shop) -> None:
    revoked, other = (call(running_shop, "note", countdown=2) for _ in range(2))
    revoked.revoke()
    other.get(timeout=PATIENCE_S)
    call(running_shop, "add", 1, 2, countdown=1).get(timeout=PATIENCE_S)
    assert shop.notes(running_shop.broker) == [other.id]


def test_many_at_once(running_shop: Shop) -> None:
    waiting = [call(running_shop, "add", 1, n) for n in range(5)]
    running_shop.app.control.revoke([each.id for each in waiting])
    assert {state(running_shop, each.id) for each in waiting} == {TaskState.CANCELLED}


def test_a_group(running_shop: Shop) -> None:
    add = running_shop.app.tasks["shop.add"]
    waiting = group(add.s(1, n) for n in range(3)).apply_async(countdown=FAR_S)
    waiting.revoke()
    assert {state(running_shop, each.id) for each in waiting.results} == {TaskState.CANCELLED}


def test_a_part_of_a_chord_fails_the_chord(running_shop: Shop) -> None:
    add, total = (running_shop.app.tasks[f"shop.{name}"] for name in ("add", "total"))
    body = chord([add.s(1, 1), add.s(2, 2).set(countdown=FAR_S, task_id="part")])(total.s())
    running_shop.app.control.revoke("part")
    with pytest.raises(TaskRevokedError):
        body.get(timeout=PATIENCE_S)


def test_without_a_worker_too(running_shop: Shop, timerd_server: Server) -> None:
    app = shop.make(f"{running_shop.url[:-1]}4", timerd_server.address)
    waiting = app.tasks["shop.add"].apply_async((1, 2), countdown=FAR_S)
    waiting.revoke()
    with pytest.raises(TaskRevokedError):
        waiting.get(timeout=PATIENCE_S)
    shop.close(app)


def test_one_that_these_settings_do_not_accept(running_shop: Shop) -> None:
    waiting = call(running_shop, "add", 1, 2, serializer="pickle")
    waiting.revoke()
    assert (waiting.state, state(running_shop, waiting.id)) == ("REVOKED", TaskState.CANCELLED)


def test_some_workers_only_is_for_them_alone(running_shop: Shop) -> None:
    waiting = call(running_shop, "add", 1, 2)
    running_shop.app.control.revoke(waiting.id, destination=["celery@elsewhere"])
    assert state(running_shop, waiting.id) is TaskState.PENDING
    running_shop.app.control.revoke(waiting.id)
    assert state(running_shop, waiting.id) is TaskState.CANCELLED


def test_an_unknown_id_is_told_to_the_workers(running_shop: Shop) -> None:
    told = running_shop.app.control.revoke("nobody", reply=True, timeout=20, limit=1)
    assert [each["ok"] for reply in told for each in reply.values()] == ["tasks {'nobody'} flagged as revoked"]
