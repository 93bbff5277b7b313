"""Rules of queues: `client.queues`, for asyncio and without it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from timerd.sdk.scheduling.key_rules import KeyRules, KeyRulesInfo
from timerd.sdk.scheduling.queue_limits import QueueLimit, limit_message
from timerd.sdk.scheduling.schedule_link import Opens, request_id_of
from timerd.sdk.scheduling.sync_twin import Result, blocking, iterating
from timerd.sdk.transport import pages
from timerd.sdk.values import (
    _WireEnum,
    datetime_of_ms,
    instant_ms,
    invalid,
    ms_of_timestamp,
    name,
    text,
    timestamp_of_ms,
    whole_number,
)
from timerd.v1 import regulation_service_pb2 as pb

_SERVICE = "RegulationService"


class QueueMode(_WireEnum):
    """A queue's mode says whether it takes tasks in, and whether it sends them.

    What workers have in hand goes on in every mode.

    Attributes:
        UNSPECIFIED: a mode of a later server, which this release does not know.
        RUNNING: it does both.
        PAUSED: it takes tasks in and sends none.
        DRAINING: it sends tasks and takes none in.
        STOPPED: it does neither.
    """

    UNSPECIFIED = 0
    RUNNING = 1
    PAUSED = 2
    DRAINING = 3
    STOPPED = 4


class BreakerState(_WireEnum):
    """A breaker's state says whether it lets tasks go.

    Attributes:
        UNSPECIFIED: a state of a later server, which this release does not know.
        CLOSED: it lets them go; after it was open, few at first.
        OPEN: it lets none go.
        HALF_OPEN: it lets one go at a time, to see how it ends.
    """

    UNSPECIFIED = 0
    CLOSED = 1
    OPEN = 2
    HALF_OPEN = 3


class OnFailure(_WireEnum):
    """What becomes of the other tasks of an ordering key when one of them fails.

    Attributes:
        UNSPECIFIED: a policy of a later server, which this release does not know.
        HOLD: they wait for its retries, and go on after the dead letter.
        HALT: they wait for its retries; a dead letter halts the key until it is redriven or skipped.
        PASS: they pass it while it waits for its next attempt, which has its place by its new time.
    """

    UNSPECIFIED = 0
    HOLD = 1
    HALT = 2
    PASS = 3


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A key info shows one ordering key of a queue.

    Args:
        key: the ordering key.
        waiting: how many of its tasks the server has in memory, which are due soon or wait.
        task_id: the task that the others wait for: it halts the key, is with a worker, or is the next one; None where
            there is none.
        halted: whether that task has failed for good, and the key stands still since.
        since: of a key that stands still, since when, in UTC.
        next_time: when the next task may start at the earliest, in UTC, where it waits for a retry.
    """

    key: str
    waiting: int
    task_id: str | None
    halted: bool
    since: datetime | None
    next_time: datetime | None

    @classmethod
    def of(cls, message: pb.OrderingKey) -> KeyInfo:
        """The info says what the message `message` says."""
        since = datetime_of_ms(ms_of_timestamp(message.since)) if message.HasField("since") else None
        next_time = datetime_of_ms(ms_of_timestamp(message.next_time)) if message.HasField("next_time") else None
        return cls(message.key, message.waiting, message.task_id or None, message.halted, since, next_time)


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue info shows the rules of a queue.

    Args:
        name: the name of the queue.
        namespace: its namespace.
        mode: what it does now.
        until: when it is RUNNING again by itself, in UTC; None where it waits for `resume`.
        note: why it is in this mode.
        revision: grows with each change; 0 where it never had rules.
        limit: how much of it is sent; None for all that workers want.
        limits: names of the limits that it shares with other queues.
        silent: of a change: the instances that live and have not confirmed it. Empty: it is so on all of them.
        held_until: until when the queue is held, since a handler was throttled (`Throttled`), in UTC, as the instance
            that was asked knows it; None where it is not.
        breaker: the state of its breaker, of the instance that was asked; None where it has none.
        breaker_until: until when its breaker is open, in UTC; None where it is not.
        keys: how much of each limit key of it is sent; None where nobody has said that.
        ordering: what becomes of the others of an ordering key when a task of it fails.
    """

    name: str
    namespace: str
    mode: QueueMode
    until: datetime | None
    note: str
    revision: int
    limit: QueueLimit | None = None
    limits: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    held_until: datetime | None = None
    breaker: BreakerState | None = None
    breaker_until: datetime | None = None
    keys: KeyRulesInfo | None = None
    ordering: OnFailure = OnFailure.HOLD

    @classmethod
    def of(cls, message: pb.Queue, silent: tuple[str, ...] = ()) -> QueueInfo:
        """The info says what the message `message` says; `silent` are those who have not confirmed it."""
        until = datetime_of_ms(ms_of_timestamp(message.until)) if message.HasField("until") else None
        limit = QueueLimit.of(message.limit) if message.HasField("limit") else None
        mode, limits = QueueMode(message.mode), tuple(message.limits)
        rest = message.note, message.revision, limit, limits, silent, held_until(message), *_breaker(message)
        keys = KeyRulesInfo.of(message.keys) if message.HasField("keys") else None
        ordering = OnFailure(message.ordering) if message.ordering else OnFailure.HOLD
        return cls(message.name, message.namespace, mode, until, *rest, keys, ordering)


class Queues:
    """The queues of a client's namespace, and what rules they have.

    Clients make it, as `client.queues`. Every call may raise the errors that the class of the client names. A change
    holds on all instances when the call returns, unless the answer names some as `silent`: these read it within ten
    seconds, and the same call again says whether they have. A change raises FailedPrecondition (OLDER_RELEASE) while an
    instance of a release without rules lives.

    Args:
        client: the client.
    """

    def __init__(self, client: Opens) -> None:
        self._client = client

    async def get(self, queue: str) -> QueueInfo:
        """The call returns the rules of a queue. One that nobody gave any is RUNNING.

        Args:
            queue: the name of the queue.
        """
        request = pb.GetQueueRequest(namespace=self._open(), queue=name(queue, "queue"))
        return QueueInfo.of((await self._call("GetQueue", request, pb.GetQueueResponse)).queue)

    async def list(self) -> AsyncIterator[QueueInfo]:
        """The call goes through the queues of the namespace that have, or had, rules, by name."""
        request = pb.ListQueuesRequest(namespace=self._open())
        async for page in pages(request, lambda: self._call("ListQueues", request, pb.ListQueuesResponse)):
            for each in page.queues:
                yield QueueInfo.of(each)

    async def pause(
        self,
        queue: str,
        *,
        note: str = "",
        until: datetime | None = None,
        revision: int = 0,
        request_id: str | None = None,
    ) -> QueueInfo:
        """The call pauses a queue: when it returns, nothing of it is sent to a worker. It goes on taking tasks in.

        Args:
            queue: the name of the queue.
            note: why, for people who look at it; up to 1,024 characters. Default nothing.
            until: when it is RUNNING again by itself, a datetime with a zone. Default when it is resumed.
            revision: the only revision that is changed. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            Aborted: it has another revision by now.
        """
        return await self._set(queue, QueueMode.PAUSED, note, until, revision, request_id)

    async def drain(
        self,
        queue: str,
        *,
        note: str = "",
        until: datetime | None = None,
        revision: int = 0,
        request_id: str | None = None,
    ) -> QueueInfo:
        """The call drains a queue: a task that is scheduled later is refused (QUEUE_SHUT). What it has is sent.

        Args:
            queue: the name of the queue.
            note: why, for people who look at it, and for callers that are refused; up to 1,024 characters. Default
                nothing.
            until: when it is RUNNING again by itself, a datetime with a zone. Default when it is resumed.
            revision: the only revision that is changed. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            Aborted: it has another revision by now.
        """
        return await self._set(queue, QueueMode.DRAINING, note, until, revision, request_id)

    async def stop(
        self,
        queue: str,
        *,
        note: str = "",
        until: datetime | None = None,
        revision: int = 0,
        request_id: str | None = None,
    ) -> QueueInfo:
        """The call stops a queue: it sends nothing, and a task that is scheduled later is refused (QUEUE_SHUT).

        Args:
            queue: the name of the queue.
            note: why, for people who look at it, and for callers that are refused; up to 1,024 characters. Default
                nothing.
            until: when it is RUNNING again by itself, a datetime with a zone. Default when it is resumed.
            revision: the only revision that is changed. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            Aborted: it has another revision by now.
        """
        return await self._set(queue, QueueMode.STOPPED, note, until, revision, request_id)

    async def resume(self, queue: str, *, revision: int = 0, request_id: str | None = None) -> QueueInfo:
        """The call makes a queue RUNNING: what has come due meanwhile is sent now.

        Args:
            queue: the name of the queue.
            revision: the only revision that is changed. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            Aborted: it has another revision by now.
        """
        return await self._set(queue, QueueMode.RUNNING, "", None, revision, request_id)

    async def put(
        self,
        queue: str,
        *,
        rate: str | None = None,
        burst: int | None = None,
        max_in_hand: int | None = None,
        limits: Iterable[str] = (),
        breaker: bool = False,
        keys: KeyRules | None = None,
        ordering: str | None = None,
        revision: int = 0,
        request_id: str | None = None,
    ) -> QueueInfo:
        """The call gives a queue limits and a breaker, in the place of those before; without any it has none. Its mode
        stays.

        Args:
            queue: the name of the queue.
            rate: how many tasks start in a time, retries counted: "100/s", "30/m", "1000/h", "5/10s". Default any.
            burst: how many of the rate may start at once. Default what it gives in 100 ms, at least 1.
            max_in_hand: how many deliveries workers have at a time. Default any number.
            limits: names of limits that it shares with other queues (`client.limits`), up to 8. Default none.
            breaker: whether it is left in peace for a while when half of its attempts fail. Default it is not.
            keys: how much of each limit key is sent. Default the keys take turns, each with up to a half of what is in
                hand.
            ordering: what becomes of the others of an ordering key when a task of it fails: "hold", "halt" or "pass"
                (`OnFailure`). Default as it is.
            revision: the only revision that is changed. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            Aborted: it has another revision by now.
            FailedPrecondition: nobody has put a limit that it lists (LIMIT_UNKNOWN), or the server is one of a cluster
                and a rate or rules of keys are given, or one of its instances is of an older release
                (LIMIT_IN_CLUSTER).
        """
        request = pb.PutQueueRequest(
            namespace=self._open(),
            request_id=request_id_of(request_id),
            queue=name(queue, "queue"),
            revision=whole_number(revision, "revision"),
            limits=_names(limits),
            ordering=_ordering_of(ordering),
        )
        if (rate, burst, max_in_hand) != (None, None, None):
            request.limit.CopyFrom(limit_message(rate, burst, max_in_hand))
        if breaker:
            request.breaker.SetInParent()
        if keys is not None:
            request.keys.CopyFrom(keys.to_proto())
        return QueueInfo.of((await self._call("PutQueue", request, pb.PutQueueResponse)).queue)

    async def keys(self, queue: str, *, limit: int = 100) -> tuple[KeyInfo, ...]:
        """The call returns ordering keys of a queue: those that stand still, then those with the most waiting.

        Args:
            queue: the name of the queue.
            limit: how many at most, 1 to 1,000. Default 100.
        """
        request = pb.ListKeysRequest(
            namespace=self._open(), queue=name(queue, "queue"), limit=whole_number(limit, "limit", 1, 1_000)
        )
        reply = await self._call("ListKeys", request, pb.ListKeysResponse)
        return tuple(map(KeyInfo.of, reply.keys))

    async def skip_key(
        self, queue: str, ordering_key: str, *, task_id: str | None = None, request_id: str | None = None
    ) -> str:
        """The call lets an ordering key that stands still go on without the task that has failed, and returns its id:
        it stays a dead letter. To have it tried again, redrive it: the key goes on then as well.

        Args:
            queue: the name of the queue.
            ordering_key: the ordering key.
            task_id: the task that halts it; another one goes on halting it. Default whatever does.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            NotFound: no task, or another one, halts the key.
        """
        request = pb.SkipKeyRequest(
            namespace=self._open(),
            request_id=request_id_of(request_id),
            queue=name(queue, "queue"),
            ordering_key=text(ordering_key, "ordering_key", 1_024),
            task_id=text(task_id or "", "task_id", 128),
        )
        skipped: str = (await self._call("SkipKey", request, pb.SkipKeyResponse)).task_id
        return skipped

    async def _set(
        self, queue: str, mode: QueueMode, note: str, until: datetime | None, revision: int, request_id: str | None
    ) -> QueueInfo:
        request = pb.SetModeRequest(
            namespace=self._open(),
            request_id=request_id_of(request_id),
            queue=name(queue, "queue"),
            mode=pb.QueueMode.Name(mode.value),
            note=text(note, "note", 4_096),
            revision=whole_number(revision, "revision"),
        )
        if until is not None:
            request.until.CopyFrom(timestamp_of_ms(instant_ms(until, "until")))
        reply = await self._call("SetMode", request, pb.SetModeResponse)
        return QueueInfo.of(reply.queue, tuple(reply.silent))

    def _open(self) -> str:
        """The namespace of the client, which is open then."""
        self._client._open()
        return self._client._namespace

    def _call(self, method: str, request: Any, kind: type[Any]) -> Coroutine[Any, Any, Any]:  # noqa: ANN401 - of each call
        return self._client._calls(method, request, kind, _SERVICE)


class SyncQueues:
    """The queues of a sync client's namespace: the calls of `Queues` without await.

    Sync clients make it, as `client.queues`.

    Args:
        client: the sync client.
    """

    def __init__(self, client: Any) -> None:  # noqa: ANN401 - it makes this
        self._client = client._client.queues
        self._caller = client

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        ran: Result = self._caller._run(work)
        return ran

    get = blocking(Queues.get)
    pause = blocking(Queues.pause)
    drain = blocking(Queues.drain)
    stop = blocking(Queues.stop)
    put = blocking(Queues.put)
    resume = blocking(Queues.resume)
    keys = blocking(Queues.keys)
    skip_key = blocking(Queues.skip_key)
    list = iterating(Queues.list)


def held_until(message: pb.Queue | pb.NamedLimit) -> datetime | None:
    """None: it is not held."""
    return datetime_of_ms(ms_of_timestamp(message.held_until)) if message.HasField("held_until") else None


def _breaker(message: pb.Queue) -> tuple[BreakerState | None, datetime | None]:
    if not message.HasField("breaker"):
        return None, None
    breaker = message.breaker
    until = datetime_of_ms(ms_of_timestamp(breaker.until)) if breaker.HasField("until") else None
    return BreakerState(breaker.state), until


def _ordering_of(ordering: str | None) -> str:
    """None: as it is."""
    if ordering is None:
        return "ON_FAILURE_UNSPECIFIED"
    found = {each.name.lower(): each for each in OnFailure if each is not OnFailure.UNSPECIFIED}.get(ordering)
    if found is None:
        raise invalid(f"`ordering` is {ordering!r:.60}: use 'hold', 'halt' or 'pass'.", "ordering")
    return f"ON_FAILURE_{found.name}"


def _names(limits: Iterable[str]) -> list[str]:
    if isinstance(limits, str):
        raise invalid(f"`limits` is {limits!r:.60}: give a list of names, as [{limits!r:.60}].", "limits")
    return [name(each, "limits") for each in limits]
