"""Looking on: deliveries of all instances as they happen, for people and their screens."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta

from timerd.sdk.scheduling.link import Link
from timerd.sdk.transport import Backoff
from timerd.sdk.values import (
    TimerdError,
    Unavailable,
    _WireEnum,
    datetime_of_ms,
    final,
    is_retryable,
    ms_of_timestamp,
    text,
    unanswered,
    whole_number,
)
from timerd.v1 import watch_pb2 as pb

MOST_PER_SECOND = 1_000


class DeliveryEventKind(_WireEnum):
    """The kind of an event says what has happened to a delivery.

    Attributes:
        UNSPECIFIED: a kind that only a later server knows.
        SENT: it was sent to a worker.
        ACKED: its worker has acknowledged it.
        FAILED: the attempt is over, and another one follows.
        DEAD: the attempt is over, and none follows: the task is a dead letter.
        EXPIRED: the attempt is over, and another one could not begin before the task expires.
        GIVEN_BACK: its worker gave it back as it was, and it is sent again.
        CANCELLED: the attempt is over, and none follows: the task was cancelled or purged meanwhile.
    """

    UNSPECIFIED = 0
    SENT = 1
    ACKED = 2
    FAILED = 3
    DEAD = 4
    EXPIRED = 5
    GIVEN_BACK = 6
    CANCELLED = 7


@dataclass(frozen=True, slots=True)
class DeliveryEvent:
    """A delivery event says that a delivery was sent, or that it is over.

    Args:
        time: the instant in UTC at which that happened.
        kind: what happened.
        queue: the queue of the task.
        task_id: the id of the task.
        due_time: the instant in UTC at which this attempt was due.
        late: how much later it was sent.
        attempt: its number, 1 for the first.
        worker: the name of its worker; empty where that is not known.
        instance: the name of the instance that sent it.
        took: the time from its sending to its end; None of one that was sent just now.
        next_attempt_time: the instant in UTC at which it is due again after it FAILED; else None.
    """

    time: datetime
    kind: DeliveryEventKind
    queue: str
    task_id: str
    due_time: datetime
    late: timedelta
    attempt: int
    worker: str
    instance: str
    took: timedelta | None
    next_attempt_time: datetime | None

    @classmethod
    def of(cls, message: pb.DeliveryEvent) -> DeliveryEvent:
        """It says what the message `message` says."""
        kind, again = DeliveryEventKind(message.kind), message.HasField("next_attempt_time")
        return cls(
            time=datetime_of_ms(ms_of_timestamp(message.time)),
            kind=kind,
            queue=message.queue,
            task_id=message.task_id,
            due_time=datetime_of_ms(ms_of_timestamp(message.due_time)),
            late=timedelta(milliseconds=message.lateness_ms),
            attempt=message.attempt,
            worker=message.worker,
            instance=message.instance,
            took=None if kind is DeliveryEventKind.SENT else timedelta(milliseconds=message.took_ms),
            next_attempt_time=datetime_of_ms(ms_of_timestamp(message.next_attempt_time)) if again else None,
        )


@dataclass(frozen=True, slots=True)
class Watched:
    """What is watched comes in parts: some events, and how much was left out.

    Args:
        events: what happened since the part before; empty while nothing happens.
        left_out: how many deliveries and ends of deliveries were left out since then.
        silent: the names of instances that live and are not heard.
        is_resumed: whether the connection was lost before this part; what happened meanwhile is not counted either.
    """

    events: Sequence[DeliveryEvent]
    left_out: int
    silent: Sequence[str]
    is_resumed: bool

    @classmethod
    def of(cls, message: pb.WatchResponse, is_resumed: bool) -> Watched:
        """It says what a message says.

        Args:
            message: one of the stream.
            is_resumed: whether the connection was lost before it.
        """
        events = tuple(map(DeliveryEvent.of, message.events))
        return cls(events, message.left_out, tuple(message.silent), is_resumed)


def _of_older(failed: TimerdError) -> TimerdError:
    """What gRPC says of a method that is not there tells nobody anything."""
    if failed.code != "UNIMPLEMENTED":
        return final(failed, False)
    sentence = "This server is of a release that does not tell what it sends: upgrade it, or look at `overview`."
    return TimerdError(sentence, code=failed.code)


class Watching(Link):
    """The part of `Client` that looks on."""

    async def watch(self, queue: str = "", *, max_per_second: int = 0) -> AsyncIterator[Watched]:
        """The call yields deliveries as they happen, until it is left: `async for seen in client.watch("mails")`.

        It is for people and loses what is too much for them, which it counts. The end of a delivery is told only where
        its sending was. A connection that breaks is opened again, however long the server is away. A server of an older
        release raises TimerdError with the code UNIMPLEMENTED.

        Args:
            queue: deliveries of this queue. Default those of all queues of the namespace.
            max_per_second: so many deliveries are told in a second, up to 1,000. Default (and 0) 50.
        """
        self._open()
        request = pb.WatchRequest(
            namespace=self._namespace,
            queue=text(queue, "queue"),
            max_per_second=whole_number(max_per_second, "max_per_second", 0, MOST_PER_SECOND),
        )
        loop, backoff, is_resumed = asyncio.get_running_loop(), Backoff(), False
        # Who has been connected once goes on to try, however long the server is away.
        deadline_s = loop.time() + self._timeout_s
        while True:
            ended: TimerdError = Unavailable("The stream was closed.")
            try:
                async with aclosing(self._calls.stream("Watch", request, pb.WatchResponse)) as messages:
                    async for message in messages:
                        yield Watched.of(message, is_resumed)
                        is_resumed, deadline_s = False, math.inf
                        backoff.reset()
            except TimerdError as failed:
                if not is_retryable(failed):
                    raise _of_older(failed) from None
                ended = failed
            pause_s, is_resumed = max(ended.retry_after or 0.0, backoff.next_s()), True
            if pause_s >= deadline_s - loop.time():
                raise unanswered(ended, False, self._timeout_s, self._connection.target)
            await asyncio.sleep(pause_s)
