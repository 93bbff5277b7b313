"""A small application of Celery, made by tests and by their workers alike. `python -m tests.contrib.celery.shop` runs a
worker of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import redis
from celery import Celery

from timerd.contrib.celery import install
from timerd.contrib.celery.installing import LaterCalls

BROKER, SERVER, TIMEOUT = "SHOP_BROKER", "SHOP_SERVER", "SHOP_TIMEOUT"
NOTES = "notes"


def make(broker: str, server: str = "", **options: Any) -> Celery:  # noqa: ANN401 - as `install` takes them
    """Without a server it is Celery as it comes."""
    app = Celery("shop", broker=broker, backend=broker)
    app.conf.update(
        accept_content=["json", "yaml"],
        task_routes={"shop.routed": {"queue": "express"}},
        result_extended=True,
        broker_connection_retry_on_startup=True,
        worker_hijack_root_logger=False,
    )
    if server:
        install(app, server, **{"longer_than": 0.1, **options})
    for function, its_own in TASKS.items():
        app.task(shared=False, name=f"shop.{function.__name__}", **its_own)(function)
    return app


def close(app: Celery) -> None:
    """Results that are thrown away when the broker has ended have nothing to say to it. The client of timerd ends as
    well, for all of a process share one thread."""
    if isinstance(app.send_task, LaterCalls):
        app.send_task.close()
    app.backend.result_consumer.subscribed_to.clear()
    app.close()


def add(one: int, other: int = 0) -> int:
    return one + other


def total(numbers: list[int]) -> int:
    return sum(numbers)


def routed(self: Any) -> str:  # noqa: ANN401 - a task
    return str(self.request.delivery_info["routing_key"])


def request(self: Any, name: str) -> Any:  # noqa: ANN401 - a task
    return getattr(self.request, name)


def fail(why: str) -> None:
    raise ValueError(why)


def note(self: Any, *_: object) -> None:  # noqa: ANN401 - a task
    with redis.Redis.from_url(self.app.conf.broker_url) as client:
        client.rpush(NOTES, self.request.id)


def again(self: Any, times: int, **when: Any) -> int:  # noqa: ANN401 - a task
    if self.request.retries < times:
        raise self.retry(**when)
    return int(self.request.retries)


def stubborn() -> None:
    raise ValueError("never")


def replaced(self: Any) -> Any:  # noqa: ANN401 - a task
    return self.replace(self.app.tasks["shop.add"].s(20, 2).set(countdown=1))


def parent(self: Any) -> Any:  # noqa: ANN401 - a task
    return self.app.tasks["shop.request"].apply_async(("root_id",), countdown=1).id


# With what each is registered.
TASKS: dict[Callable[..., Any], dict[str, Any]] = {
    add: {},
    total: {},
    routed: {"bind": True},
    request: {"bind": True},
    fail: {},
    note: {"bind": True},
    again: {"bind": True, "max_retries": 2, "default_retry_delay": 1},
    stubborn: {"autoretry_for": (ValueError,), "max_retries": 2, "retry_backoff": 1, "retry_jitter": False},
    replaced: {"bind": True},
    parent: {"bind": True},
}


def notes(broker: redis.Redis) -> list[str]:
    """The ids of the tasks that `note` has run as, in their order."""
    return [each.decode() for each in broker.lrange(NOTES, 0, -1) if isinstance(each, bytes)]


def main() -> None:
    """A worker, as `celery worker` is."""
    app = make(os.environ[BROKER], os.environ.get(SERVER, ""), timeout=float(os.environ[TIMEOUT]))
    print("making", flush=True)
    app.worker_main(
        ["worker", "-c", "2", "-Q", "celery,express", "--without-gossip", "--without-mingle", *sys.argv[1:]]
    )


if __name__ == "__main__":
    main()
