"""Limits that queues share: `client.limits`, for asyncio and without it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from timerd.sdk.scheduling.key_rules import KeyLimit, overrides_of, overrides_shown
from timerd.sdk.scheduling.queue_infos import held_until
from timerd.sdk.scheduling.queue_limits import QueueLimit, limit_message
from timerd.sdk.scheduling.schedule_link import Opens, request_id_of
from timerd.sdk.scheduling.sync_twin import Result, blocking, iterating
from timerd.sdk.transport import pages
from timerd.sdk.values import name, whole_number
from timerd.v1 import regulation_service_pb2 as pb

_SERVICE = "RegulationService"


@dataclass(frozen=True, slots=True)
class KeyAtLimit:
    """A key at its limit shows a limit key that may start nothing now by a keyed limit.

    Args:
        limit_key: the key.
        in_hand: how many of its deliveries workers have, of all queues that list the limit.
        waiting: how many of its due tasks are in memory, of these queues.
        next_time: when the next one may start, a datetime in UTC; None: when a worker has ended one.
        throttled: whether it is held since a handler was throttled (`Throttled`).
    """

    limit_key: str
    in_hand: int
    waiting: int
    next_time: datetime | None = None
    throttled: bool = False

    @classmethod
    def of(cls, message: pb.KeyAtLimit) -> KeyAtLimit:
        """The key says what the message `message` says."""
        next_time = message.next_time.ToDatetime(UTC) if message.HasField("next_time") else None
        return cls(message.limit_key, message.in_hand, message.waiting, next_time, message.throttled)


@dataclass(frozen=True, slots=True)
class LimitInfo:
    """A limit info shows a limit with a name.

    Args:
        name: the name of the limit.
        namespace: its namespace.
        limit: how much of the queues that list it is sent, of all of them together.
        revision: grows with each change.
        queues: the queues that list it, by name; the first 1,000.
        in_hand: how many deliveries of these queues workers have now; in a cluster those that the asked instance has
            sent.
        next_time: when its rate allows the next start, a datetime in UTC; None: now.
        held_until: until when nothing starts by it, since a handler was throttled (`Throttled`), in UTC; None where it
            is not held.
        keyed: whether each limit key has it for itself, over all queues that list it.
        overrides: of a keyed limit, what some keys have in its place; None for no limit.
        keys_at_limit: of a keyed limit, the keys that may start nothing now, those with the most due tasks first; the
            first 100, as `get` shows them.
        keys_at_limit_count: how many these are, of the first 10,000 keys that wait for it or are in hand.
    """

    name: str
    namespace: str
    limit: QueueLimit
    revision: int
    queues: tuple[str, ...] = ()
    in_hand: int = 0
    next_time: datetime | None = None
    held_until: datetime | None = None
    keyed: bool = False
    overrides: Mapping[str, QueueLimit | None] = field(default_factory=dict)
    keys_at_limit: tuple[KeyAtLimit, ...] = ()
    keys_at_limit_count: int = 0

    @classmethod
    def of(cls, message: pb.NamedLimit) -> LimitInfo:
        """The info says what the message `message` says."""
        limit, queues = QueueLimit.of(message.limit), tuple(message.queues)
        next_time = message.next_time.ToDatetime(UTC) if message.HasField("next_time") else None
        return cls(
            message.name,
            message.namespace,
            limit,
            message.revision,
            queues,
            message.in_hand,
            next_time,
            held_until(message),
            message.keyed,
            overrides_shown(message.overrides),
            tuple(map(KeyAtLimit.of, message.keys_at_limit)),
            message.keys_at_limit_count,
        )


class Limits:
    """The limits of a client's namespace, which queues list by their names.

    Clients make it, as `client.limits`. Every call may raise the errors that the class of the client names. A limit
    counts for all queues that list it together, and a change counts when the call returns. Changes raise
    FailedPrecondition (LIMIT_IN_CLUSTER) where the server is one of a cluster and one of its instances is of an older
    release, or the limit is a keyed one.

    Args:
        client: the client.
    """

    def __init__(self, client: Opens) -> None:
        self._client = client

    async def put(
        self,
        limit: str,
        *,
        rate: str | None = None,
        burst: int | None = None,
        max_in_hand: int | None = None,
        keyed: bool = False,
        overrides: Mapping[str, KeyLimit] | None = None,
        revision: int = 0,
        request_id: str | None = None,
    ) -> LimitInfo:
        """The call makes a limit, or puts it in the place of the one with this name.

        Args:
            limit: its name, 1 to 128 characters of A-Z a-z 0-9 . _ - / and the colon.
            rate: how many tasks start in a time, retries counted: "100/s", "30/m", "1000/h", "5/10s". Default any.
            burst: how many of the rate may start at once. Default what it gives in 100 ms, at least 1.
            max_in_hand: how many deliveries workers have at a time. Default any number.
            keyed: each limit key has the limit for itself, over all queues that list it. Default all have it together.
            overrides: of a keyed limit, in its place, of some keys, by key; up to 1,000. Default none.
            revision: the only revision that is changed. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            Aborted: it has another revision by now.
            FailedPrecondition: it is to be a keyed one, and a queue that lists it goes by deadlines (LIMIT_OF_KEYS).
            InvalidTask: it limits nothing, or a value is not allowed.
        """
        request = pb.PutLimitRequest(
            namespace=self._open(),
            request_id=request_id_of(request_id),
            name=name(limit, "limit"),
            limit=limit_message(rate, burst, max_in_hand),
            keyed=bool(keyed),
            overrides=overrides_of(overrides or {}),
            revision=whole_number(revision, "revision"),
        )
        return LimitInfo.of((await self._call("PutLimit", request, pb.PutLimitResponse)).limit)

    async def get(self, limit: str) -> LimitInfo:
        """The call returns a limit.

        Args:
            limit: its name.

        Raises:
            NotFound: there is none of that name.
        """
        request = pb.GetLimitRequest(namespace=self._open(), name=name(limit, "limit"))
        return LimitInfo.of((await self._call("GetLimit", request, pb.GetLimitResponse)).limit)

    async def list(self) -> AsyncIterator[LimitInfo]:
        """The call goes through the limits of the namespace, by name."""
        request = pb.ListLimitsRequest(namespace=self._open())
        async for page in pages(request, lambda: self._call("ListLimits", request, pb.ListLimitsResponse)):
            for each in page.limits:
                yield LimitInfo.of(each)

    async def delete(self, limit: str, *, revision: int = 0, request_id: str | None = None) -> None:
        """The call deletes a limit that no queue lists.

        Args:
            limit: its name.
            revision: the only revision that is deleted. Default whatever it is.
            request_id: a name of this call, by which a repeat is known. Default a new one.

        Raises:
            Aborted: it has another revision by now.
            FailedPrecondition: a queue lists it (LIMIT_LISTED).
            NotFound: there is none of that name.
        """
        request = pb.DeleteLimitRequest(
            namespace=self._open(),
            request_id=request_id_of(request_id),
            name=name(limit, "limit"),
            revision=whole_number(revision, "revision"),
        )
        await self._call("DeleteLimit", request, pb.DeleteLimitResponse)

    def _open(self) -> str:
        """The namespace of the client, which is open then."""
        self._client._open()
        return self._client._namespace

    def _call(self, method: str, request: Any, kind: type[Any]) -> Coroutine[Any, Any, Any]:  # noqa: ANN401 - of each call
        return self._client._calls(method, request, kind, _SERVICE)


class SyncLimits:
    """The limits of a sync client's namespace: the calls of `Limits` without await.

    Sync clients make it, as `client.limits`.

    Args:
        client: the sync client.
    """

    def __init__(self, client: Any) -> None:  # noqa: ANN401 - it makes this
        self._client = client._client.limits
        self._caller = client

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        ran: Result = self._caller._run(work)
        return ran

    put = blocking(Limits.put)
    get = blocking(Limits.get)
    delete = blocking(Limits.delete)
    list = iterating(Limits.list)
