"""`install`: from then on an application's calls that are for later go to timerd, and `revoke` cancels them there."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Unpack

from celery import Celery
from celery.utils.time import maybe_iso8601, maybe_make_aware
from kombu.exceptions import OperationalError
from kombu.utils.uuid import uuid

from timerd.client import ClientKeywords, ConnectOptions, RetryPolicy, TaskOptions
from timerd.contrib.celery.catching import CatchingProducer
from timerd.contrib.celery.messages import CONTENT_TYPE
from timerd.contrib.celery.revoking import revoking
from timerd.contrib.celery.waiting import WaitingMessages
from timerd.sdk.transport import connect_options
from timerd.sdk.values import Span, name, span_ms

DEFAULT_QUEUE = "celery"
DEFAULT_LONGER_THAN = timedelta(seconds=30)
# A broker that is away is tried again for two weeks.
_RETRY = RetryPolicy(max_attempts=20_000, initial_backoff=1, multiplier=2, max_backoff=60)
_MOST_LABEL_CHARS = 256
log = logging.getLogger("timerd.celery")


def install(
    app: Celery,
    target: str | ConnectOptions = "127.0.0.1:7400",
    *,
    queue: str = DEFAULT_QUEUE,
    longer_than: Span = DEFAULT_LONGER_THAN,
    **options: Unpack[ClientKeywords],
) -> None:
    """The application's calls with a long `eta` or `countdown` go to timerd from here on, and `revoke` cancels them.

    Call it where the application is made, so that callers and workers have it alike: a worker's retries, chains and
    chords are calls too. It connects with the first call that goes there, in each process by itself.

    Args:
        app: the application.
        target: the address of timerd as HOST:PORT, or a `ConnectOptions`. Default 127.0.0.1:7400.
        queue: the queue of timerd in which the messages wait; the publisher serves the same one. Default "celery".
        longer_than: what is due within this span stays with Celery, a timedelta or seconds. Default 30 s.
        options: the other fields of `ConnectOptions` as keywords; `timeout` is how long a call is tried before it
            raises `kombu.exceptions.OperationalError`.

    Raises:
        InvalidTask: an option is of a wrong form.
        ValueError: the application has it already.
        TimerdError: gevent or eventlet has patched this process, in which gRPC cannot work (MONKEY_PATCHED).
    """
    if isinstance(vars(app).get("send_task"), LaterCalls):
        raise ValueError("timerd is installed in this application already: call `install` once.")
    connection = connect_options("install", target, options, ClientKeywords.__optional_keys__)
    waiting = WaitingMessages(connection, name(queue, "queue"))
    app.send_task = LaterCalls(app, waiting, timedelta(milliseconds=span_ms(longer_than, "longer_than")))
    app.control_cls = revoking(app.control_cls, waiting)
    # One that was made before is made anew.
    vars(app).pop("control", None)


class LaterCalls:
    """Stands in front of `Celery.send_task`.

    Args:
        app: the application, whose `send_task` it calls.
        waiting: where calls for later go.
        longer_than: what is due within this span stays with Celery.
    """

    def __init__(self, app: Celery, waiting: WaitingMessages, longer_than: timedelta) -> None:
        self._app = app
        self._send = app.send_task
        self._waiting = waiting
        self._longer_than = longer_than

    def __call__(
        self,
        name: str,
        args: Any = None,  # noqa: ANN401 - as Celery's
        kwargs: Any = None,  # noqa: ANN401 - as Celery's
        countdown: float | None = None,
        eta: datetime | str | None = None,
        task_id: str | None = None,
        producer: Any = None,  # noqa: ANN401 - a producer of kombu
        connection: Any = None,  # noqa: ANN401 - a connection of kombu
        *more: Any,  # noqa: ANN401 - as Celery's
        publisher: Any = None,  # noqa: ANN401 - the old name of `producer`
        **options: Any,  # noqa: ANN401 - as Celery's
    ) -> Any:  # noqa: ANN401 - an AsyncResult
        """As `Celery.send_task`."""
        when, producer, task_id = self._later(countdown, eta), producer or publisher, task_id or uuid()

        def now(*given: Any) -> Any:  # noqa: ANN401 - as Celery's
            return self._send(name, args, kwargs, *given, *more, **options)

        as_given = (countdown, eta, task_id, producer, connection)
        if not when or self._is_elsewhere(producer, connection):
            return now(*as_given)
        try:
            with self._catching(task_id, name, when, producer, connection) as catching:
                # Before the route is found: with quorum queues Celery would choose another one for what has an `eta`.
                return now(None, None, task_id, catching, None)
        except OperationalError as error:
            if not self._is_retry(task_id):
                raise
            log.warning("timerd cannot take the retry of task %s, so it waits in Celery's worker: %s", task_id, error)
            return now(*as_given)

    def close(self) -> None:
        """The connection of this process to timerd ends; the next call that goes there opens another one."""
        self._waiting.close()

    def _later(self, countdown: float | None, eta: datetime | str | None) -> Mapping[str, Any]:
        """When, for the client; nothing where it is soon. As in Celery a countdown goes before an `eta`."""
        if countdown:
            return {"delay": countdown} if countdown > self._longer_than.total_seconds() else {}
        if not eta:
            return {}
        at = maybe_make_aware(maybe_iso8601(eta), self._app.timezone)
        return {"at": at} if at - self._app.now() > self._longer_than else {}

    def _is_elsewhere(self, producer: Any, connection: Any) -> bool:  # noqa: ANN401 - as Celery's
        """Whether the caller names another broker than the publisher's."""
        if producer is None and connection is None:
            return False
        named = connection if connection is not None else producer.connection
        return _broker(named) != _broker(self._app.connection_for_write())

    @contextmanager
    def _catching(
        self,
        task_id: str,
        name: str,
        when: Mapping[str, Any],
        producer: Any,  # noqa: ANN401 - a producer of kombu
        connection: Any,  # noqa: ANN401 - a connection of kombu
    ) -> Iterator[CatchingProducer]:
        options = TaskOptions(labels={"task": name[:_MOST_LABEL_CHARS]}, content_type=CONTENT_TYPE, retry=_RETRY)
        if connection is not None:
            producer = self._app.amqp.Producer(connection, auto_declare=False)
        with self._app.producer_or_acquire(producer) as real:
            yield CatchingProducer(real, lambda message: self._waiting.schedule(task_id, message, when, options))

    def _is_retry(self, task_id: str) -> bool:
        """Of a task that runs here. Celery would drop it at an error."""
        task = self._app.current_worker_task
        return task is not None and task.request.id == task_id


def _broker(connection: Any) -> list[str]:  # noqa: ANN401 - a connection of kombu
    """The same for two connections that may be used one for the other. After a failover it still is."""
    return list(connection.alt or [connection.as_uri(include_password=False)])
