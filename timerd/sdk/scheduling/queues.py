"""Rules of queues: `client.queues`, for asyncio and without it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from datetime import datetime
from typing import Any

from timerd.sdk.scheduling.adaptive import Adaptive, adaptive_message
from timerd.sdk.scheduling.key_rules import KeyLimit, KeyRules, rules_of
from timerd.sdk.scheduling.queue_changes import (
    KeyChanges,
    RuleChanges,
    names_of,
    order_of,
    ordering_of,
    update_request,
)
from timerd.sdk.scheduling.queue_infos import KeyInfo, QueueInfo, QueueMode
from timerd.sdk.scheduling.queue_limits import limit_message
from timerd.sdk.scheduling.schedule_link import Opens, request_id_of
from timerd.sdk.scheduling.sync_twin import Result, blocking, iterating
from timerd.sdk.transport import pages
from timerd.sdk.values import (
    flag,
    instant_ms,
    name,
    text,
    timestamp_of_ms,
    whole_number,
)
from timerd.v1 import regulation_service_pb2 as pb

_SERVICE = "RegulationService"


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
        adaptive: Adaptive | None = None,
        keys: KeyRules | None = None,
        ordering: str | None = None,
        order: str | None = None,
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
            adaptive: between what bounds it is found out how many may be with workers at a time. Default it is not.
            keys: how much of each limit key is sent. Default the keys take turns, each with up to a half of what is in
                hand.
            ordering: what becomes of the others of an ordering key when a task of it fails: "hold", "halt" or "pass"
                (`OnFailure`). Default as it is.
            order: in what order due tasks are sent: "aged", or "edf", the earliest deadline first (`QueueOrder`).
                Default as it is.
            revision: the only revision that is changed. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            Aborted: it has another revision by now.
            FailedPrecondition: nobody has put a limit that it lists (LIMIT_UNKNOWN), or the server is one of a cluster
                and rules of keys are given, or one of its instances is of an older release (LIMIT_IN_CLUSTER).
        """
        request = pb.PutQueueRequest(
            namespace=self._open(),
            request_id=request_id_of(request_id),
            queue=name(queue, "queue"),
            revision=whole_number(revision, "revision"),
            limits=names_of(limits),
            ordering=ordering_of(ordering),
            order=order_of(order),
        )
        if (rate, burst, max_in_hand) != (None, None, None):
            request.limit.CopyFrom(limit_message(rate, burst, max_in_hand))
        if flag(breaker, "breaker"):
            request.breaker.SetInParent()
        if adaptive is not None:
            request.adaptive.CopyFrom(adaptive_message(adaptive))
        if keys is not None:
            request.keys.CopyFrom(rules_of(keys).to_proto())
        return QueueInfo.of((await self._call("PutQueue", request, pb.PutQueueResponse)).queue)

    async def update(
        self,
        queue: str,
        *,
        rate: str | None = None,
        burst: int | None = None,
        max_in_hand: int | None = None,
        limits: Iterable[str] | None = None,
        breaker: bool | None = None,
        adaptive: Adaptive | None = None,
        key_rate: str | None = None,
        key_burst: int | None = None,
        key_max_in_hand: int | None = None,
        key_share: float | None = None,
        key_limits: Mapping[str, KeyLimit | None] | None = None,
        key_weights: Mapping[str, float | None] | None = None,
        ordering: str | None = None,
        order: str | None = None,
        clear: Iterable[str] = (),
        revision: int = 0,
        request_id: str | None = None,
    ) -> QueueInfo:
        """The call changes rules of a queue at one moment: what is left out stays.

        Args:
            queue: the name of the queue.
            rate: as for `put`. A burst that nobody gave goes with it.
            burst: as for `put`.
            max_in_hand: as for `put`.
            limits: the names of all limits that it shares from now on.
            breaker: whether it has one.
            adaptive: as for `put`, all of it.
            key_rate: of each limit key, as `rate`.
            key_burst: of each limit key, as `burst`.
            key_max_in_hand: of each limit key, as `max_in_hand`.
            key_share: the part of what the queue may have in hand that one key may have; in a cluster, of its own
                `max_in_hand`.
            key_limits: other limits of some keys, by key, and None for a key that goes by what all go by. Other keys
                keep theirs.
            key_weights: how many turns some keys have for one of the others, by key: 0.01 to 100, None for one. Other
                keys keep theirs.
            ordering: as for `put`.
            order: as for `put`.
            clear: what it has no more, by the names of the keywords above; "keys" is all that is said of limit keys.
            revision: the only revision that is changed. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            Aborted: it has another revision by now.
            FailedPrecondition: as for `put`.
        """
        of_keys = KeyChanges(key_rate, key_burst, key_max_in_hand, key_share, key_limits, key_weights)
        request = update_request(
            RuleChanges(rate, burst, max_in_hand, limits, breaker, adaptive, ordering, order), of_keys, clear
        )
        request.namespace, request.queue = self._open(), name(queue, "queue")
        request.request_id, request.revision = request_id_of(request_id), whole_number(revision, "revision")
        return QueueInfo.of((await self._call("UpdateQueue", request, pb.UpdateQueueResponse)).queue)

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
    update = blocking(Queues.update)
    resume = blocking(Queues.resume)
    keys = blocking(Queues.keys)
    skip_key = blocking(Queues.skip_key)
    list = iterating(Queues.list)
