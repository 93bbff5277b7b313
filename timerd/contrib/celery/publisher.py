"""`Publisher`: hands to the broker what is due, as an ordinary handler of a worker. It runs none of the user's code."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kombu import Connection
from kombu.exceptions import OperationalError
from kombu.pools import ProducerPool

from timerd.contrib.celery.messages import Message, declared
from timerd.worker import Delivery, Reject, Worker

# Before an attempt fails: once more on a fresh connection, for one that was idle may be closed.
_RETRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}
_MOST_AT_ONCE = 100


class Publisher:
    """A publisher hands the messages of an application to its broker when they are due.

    It acknowledges a message when the broker has confirmed it, so none is lost, and one may come twice, with its id.
    Any number of publishers may run.

    Args:
        broker: the URL of the broker, or a `kombu.Connection` such as `app.connection_for_write()`.
        queue: the queue of timerd in which the messages wait. Default "celery".
        concurrency: how many connections to the broker publish at a time. Default 4.
        transport_options: those of the application (`broker_transport_options`), where it has some. Default none.
    """

    def __init__(
        self,
        broker: str | Connection,
        *,
        queue: str = "celery",
        concurrency: int = 4,
        transport_options: Mapping[str, Any] | None = None,
    ) -> None:
        connection = broker if isinstance(broker, Connection) else Connection(broker)
        # RabbitMQ's answer to each message; other transports do not know the option.
        connection.transport_options = {
            "confirm_publish": True,
            **connection.transport_options,
            **(transport_options or {}),
        }
        self._queue = queue
        self._concurrency = concurrency
        self._producers = ProducerPool(connection.Pool(limit=concurrency), limit=concurrency)

    def attach(self, worker: Worker) -> None:
        """The worker publishes what is due from then on.

        Args:
            worker: a worker that does not run yet.

        Raises:
            InvalidTask: the queue has a handler already, or is of a wrong form.
        """
        worker.on_batch(self._queue, max_size=_MOST_AT_ONCE, concurrency=self._concurrency)(self.publish)

    def publish(self, deliveries: list[Delivery]) -> list[BaseException | None]:
        """The handler: what became of each message, None where the broker has it.

        Args:
            deliveries: messages that are due.
        """
        ended: list[BaseException | None] = []
        with self._producers.acquire(block=True) as producer:
            for delivery in deliveries:
                # Where the broker is away it is so for the rest as well.
                is_away = bool(ended) and isinstance(ended[-1], OperationalError)
                ended.append(ended[-1] if is_away else _publish(producer, delivery))
        return ended


def _publish(producer: Any, delivery: Delivery) -> BaseException | None:  # noqa: ANN401 - kombu has no types
    try:
        message = Message.of_bytes(delivery.payload).of_delivery(delivery.delivery_id, time.time_ns() // 1_000_000)
    except ValueError as wrong:
        return Reject(str(wrong))
    how = {**message.publish, **_time_to_live(message)}
    try:
        producer.publish(message.body, declare=[*declared(message.declare)], retry=True, retry_policy=_RETRY, **how)
    except Exception as error:  # noqa: BLE001 - whatever a transport raises: the attempt has failed
        return error
    return None


def _time_to_live(message: Message) -> dict[str, float]:
    """In seconds, of what is left; 0 where it has passed, as Celery does, so that a worker tells of it."""
    if message.expires_at_ms is None:
        return {}
    return {"expiration": max(0.0, message.expires_at_ms / 1000 - time.time())}
