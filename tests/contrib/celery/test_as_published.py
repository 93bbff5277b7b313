"""What reaches the broker at its instant is what Celery publishes without a delay, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kombu import Exchange, Queue

from tests.contrib.celery.conftest import Publishing, Shop
from tests.process.waiting import until
from timerd.contrib.celery.messages import Message, declared, described

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("publisher")]
TASK_ID = "0b6c9f9e-7d2f-4a52-a2f9-2c4f9f8f1c11"
TOMORROW = datetime.now(UTC) + timedelta(days=1)
DOMESTIC = Queue("domestic", Exchange("parcels", "topic"), routing_key="de.#", queue_arguments={"x-max-priority": 9})
CALLS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "keywords": {"args": (1,), "kwargs": {"other": 5}},
    "a queue": {"queue": "express"},
    "a queue of its own exchange": {"queue": DOMESTIC, "routing_key": "de.berlin"},
    "a priority": {"priority": 6},
    "headers": {"headers": {"tenant": "blue", "since": TOMORROW, "raw": b"\xff\x00"}},
    "pickle": {"serializer": "pickle"},
    "compressed": {"compression": "zlib"},
    "another reply_to": {"reply_to": "answers"},
    "not durable": {"delivery_mode": 1},
    "limits of time": {"time_limit": 60, "soft_time_limit": 50},
    "a shadow": {"shadow": "plus"},
    "no result": {"ignore_result": True},
    "stamps": {"stamped_headers": ["customer"], "customer": "ada"},
}


def published(shop: Shop) -> tuple[str, dict[str, Any]]:
    """The one message that is on its way, and the list of Redis that has it."""
    until(lambda: bool(waiting(shop)), "the message is published")
    [key] = waiting(shop)
    [text] = shop.broker.lrange(key, 0, -1)
    shop.broker.delete(key)
    message = json.loads(text)
    del message["properties"]["delivery_tag"]
    return key, message


def waiting(shop: Shop) -> list[str]:
    return [key.decode() for key in shop.broker.scan_iter() if shop.broker.type(key) == b"list"]


def add(shop: Shop, **options: Any) -> Any:  # noqa: ANN401 - an AsyncResult
    return shop.app.tasks["shop.add"].apply_async(**{"args": (1, 2), "task_id": TASK_ID, **options})


@pytest.mark.parametrize("options", CALLS.values(), ids=CALLS)
def test_as_without_a_delay(running_shop: Shop, options: dict[str, Any]) -> None:
    add(running_shop, **options)
    at_once = published(running_shop)
    assert add(running_shop, countdown=0.2, **options).id == TASK_ID
    assert published(running_shop) == at_once


@pytest.fixture(params=[1, 2])
def protocol(request: pytest.FixtureRequest, running_shop: Shop) -> Iterator[None]:
    """Of Celery's messages."""
    running_shop.app.conf.task_protocol = request.param
    vars(running_shop.app.amqp).pop("create_task_message", None)
    yield
    running_shop.app.conf.task_protocol = 2
    vars(running_shop.app.amqp).pop("create_task_message", None)


@pytest.mark.usefixtures("protocol")
def test_expires_stays_and_the_time_to_live_is_what_is_left(running_shop: Shop) -> None:
    add(running_shop, expires=TOMORROW)
    _, at_once = published(running_shop)
    add(running_shop, expires=TOMORROW, countdown=0.2)
    _, later = published(running_shop)
    ms_at_once, ms_later = (int(each["properties"].pop("expiration")) for each in (at_once, later))
    assert later == at_once
    assert 0 < ms_later <= ms_at_once - 200


def test_a_time_to_live_of_the_callers_own_begins_at_the_instant(running_shop: Shop) -> None:
    add(running_shop, expiration=7, countdown=0.2)
    _, message = published(running_shop)
    assert message["properties"]["expiration"] == "7000"


def test_the_publisher_declares_the_queue(running_shop: Shop) -> None:
    add(running_shop, queue="new", countdown=0.5)
    assert not running_shop.broker.exists("_kombu.binding.new")
    assert published(running_shop)[0] == "new"
    assert running_shop.broker.exists("_kombu.binding.new")


def test_signals_and_the_event_come_at_the_call(running_shop: Shop) -> None:
    from celery.signals import after_task_publish, before_task_publish

    heard: list[Any] = []

    def before(headers: dict[str, Any], **_: object) -> None:
        headers["trace"] = "t-1"

    def after(routing_key: str, **_: object) -> None:
        heard.append(routing_key)

    before_task_publish.connect(before)
    after_task_publish.connect(after)
    running_shop.app.conf.task_send_sent_event = True
    try:
        add(running_shop, countdown=0.2)
    finally:
        running_shop.app.conf.task_send_sent_event = False
        before_task_publish.disconnect(before)
        after_task_publish.disconnect(after)
    assert heard == ["celery"]
    _, message = published(running_shop)
    assert message["headers"]["trace"] == "t-1"


def test_a_queue_is_declared_with_all_that_it_had() -> None:
    queue = Queue(
        "domestic",
        Exchange(
            "parcels", "topic", durable=False, delivery_mode="transient", arguments={"alternate-exchange": "rest"}
        ),
        routing_key="de.#",
        bindings=[],
        max_priority=9,
        message_ttl=1.5,
        queue_arguments={"x-queue-type": "quorum"},
    )
    [again] = declared(described([queue]))
    assert again.as_dict(recurse=True) == queue.as_dict(recurse=True)
    [exchange] = declared(described([queue.exchange]))
    assert exchange == queue.exchange
    assert declared(described([queue]))[0] is again


def test_what_is_no_message_is_refused_with_a_sentence() -> None:
    for payload in (b"", b"tea is ready", b'{"v": 1}\n', b"[]\n"):
        with pytest.raises(ValueError, match="no message of Celery"):
            Message.of_bytes(payload)
    later = Message(b"", "[]", None, {}).to_bytes().replace(b'"v": 1', b'"v": 3')
    with pytest.raises(ValueError, match="upgrade the publisher"):
        Message.of_bytes(later)


def test_a_publisher_rejects_what_is_no_message(running_shop: Shop, publisher: Publishing) -> None:
    task = running_shop.client.schedule("celery", b"tea is ready", delay=0)
    until(lambda: running_shop.client.get(task.id).state.name == "DEAD", "it is a dead letter")
    assert "no message of Celery" in running_shop.client.get(task.id).last_error
    assert publisher.is_running()
