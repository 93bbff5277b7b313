"""What `install` leaves to Celery, and what callers hear when timerd cannot take a message."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import EncodeError, OperationalError

from tests.contrib.celery import shop
from tests.contrib.celery.conftest import Shop, Working
from tests.process.children import Server
from tests.process.conftest import Children
from tests.process.waiting import until
from timerd.client import InvalidTask, NotFound, TaskState
from timerd.contrib.celery import Publisher, install
from timerd.demo.processes import free_port
from timerd.worker import Worker

pytestmark = [pytest.mark.process, pytest.mark.timeout(280)]


@pytest.fixture
def app(broker_url: str, timerd_server: Server) -> Iterator[Celery]:
    made = shop.make(broker_url, timerd_server.address, longer_than=60)
    yield made
    shop.close(made)


@pytest.fixture
def alone(broker_url: str) -> Iterator[Celery]:
    """With nobody at the address of timerd."""
    made = shop.make(broker_url, f"127.0.0.1:{free_port()}", timeout=0.5)
    yield made
    shop.close(made)


def add(app: Celery, **options: Any) -> Any:  # noqa: ANN401 - a result
    return app.tasks["shop.add"].apply_async((1, 2), **options)


def waits_in_timerd(running_shop: Shop, task_id: str) -> bool:
    try:
        return running_shop.client.get(key=f"celery/{task_id}").state is TaskState.PENDING
    except NotFound:
        return False


def test_only_what_is_beyond_the_limit(app: Celery, running_shop: Shop) -> None:
    assert not waits_in_timerd(running_shop, add(app, countdown=60).id)
    assert waits_in_timerd(running_shop, add(app, countdown=61).id)
    assert not waits_in_timerd(running_shop, add(app, eta=app.now()).id)
    assert not waits_in_timerd(running_shop, add(app, countdown=10, eta=app.now().replace(year=2090)).id)


def test_a_task_of_timerd_says_what_it_is(app: Celery, running_shop: Shop) -> None:
    waiting = add(app, countdown=3600, task_id="order-17")
    task = running_shop.client.get(key="celery/order-17")
    assert (task.queue, task.labels, waiting.id) == ("celery", {"task": "shop.add"}, "order-17")
    assert b'"task": "shop.add"' in task.payload.partition(b"\n")[0]


def test_the_same_id_waits_once(app: Celery, running_shop: Shop) -> None:
    for hours in (1, 2):
        add(app, countdown=3600 * hours, task_id="order-18")
    [task] = [each for each in running_shop.client.list(queue="celery") if each.key == "celery/order-18"]
    assert task.fire_time.timestamp() - time.time() > 3700


def test_another_broker_is_left_to_celery(app: Celery, running_shop: Shop, broker_url: str) -> None:
    with Celery(broker=broker_url[:-1] + "5", set_as_current=False).connection_for_write() as elsewhere:
        assert not waits_in_timerd(running_shop, add(app, countdown=3600, connection=elsewhere).id)
        with app.amqp.Producer(elsewhere) as producer:
            assert not waits_in_timerd(running_shop, add(app, countdown=3600, producer=producer).id)


def test_eager_tasks_run_at_once(app: Celery) -> None:
    app.conf.task_always_eager = True
    assert add(app, countdown=3600).get() == 3


def test_installed_twice(app: Celery) -> None:
    with pytest.raises(ValueError, match="once"):
        install(app)


def test_wrong_options_are_refused(broker_url: str) -> None:
    app = Celery(broker=broker_url, set_as_current=False)
    for options in ({"longer_than": -1}, {"queue": ""}, {"timeout": 0}):
        with pytest.raises(InvalidTask):
            install(app, **options)
    with pytest.raises(TypeError, match="colour"):
        install(app, colour="blue")  # type: ignore[call-arg]
    add(shop.make(broker_url), countdown=1)


def test_a_control_that_was_made_before_is_made_anew(broker_url: str, timerd_server: Server) -> None:
    app = Celery(broker=broker_url, set_as_current=False)
    before = app.control
    install(app, timerd_server.address)
    assert app.control is not before
    assert isinstance(app.control, type(before))


def test_timerd_is_away(alone: Celery) -> None:
    with pytest.raises(OperationalError, match=r"^timerd: .*could not be reached within 0.5 s; nothing was sent"):
        add(alone, countdown=3600)
    with pytest.raises(OperationalError, match=r"^timerd: "):
        alone.control.revoke("order-17")


def test_a_message_that_is_too_long(app: Celery) -> None:
    with pytest.raises(InvalidTask, match="payload"):
        app.tasks["shop.fail"].apply_async(("x" * 100_000,), countdown=3600)


def test_a_header_without_json(app: Celery) -> None:
    with pytest.raises(EncodeError, match="as JSON"):
        add(app, countdown=3600, headers={"what": object()})


def test_a_retry_goes_on_without_timerd(children: Children, tmp_path: Path, broker_url: str) -> None:
    """Celery would drop it: a retry that cannot be sent is rejected there."""
    url = broker_url[:-1] + "2"
    working = children.own(Working(tmp_path, url, f"127.0.0.1:{free_port()}", timeout_s=0.5))
    working.start()
    app = shop.make(url)
    assert app.tasks["shop.again"].delay(2, countdown=1).get(timeout=90) == 2
    assert "waits in Celery's worker" in working.errors()
    shop.close(app)


async def test_a_publisher_in_a_program_of_the_users(
    broker_url: str, timerd_server: Server, running_shop: Shop
) -> None:
    """By the connection of the application, in a queue of its own."""
    app = shop.make(broker_url[:-1] + "3", timerd_server.address, queue="later")
    worker = Worker(timerd_server.address)
    Publisher(app.connection_for_write(), queue="later", concurrency=1).attach(worker)
    with pytest.raises(InvalidTask, match="handler already"):
        Publisher(app.connection_for_write(), queue="later").attach(worker)
    waiting = add(app, countdown=0.2)
    running = asyncio.create_task(worker.run())
    await asyncio.to_thread(until, lambda: not waits_in_timerd(running_shop, waiting.id), "it is published")
    await worker.stop()
    await running
    with app.connection_for_read() as connection:
        assert connection.SimpleQueue("celery").get(timeout=10).headers["id"] == waiting.id
    shop.close(app)
