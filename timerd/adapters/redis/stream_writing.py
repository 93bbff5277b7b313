"""Entries into a Redis stream (XADD), a round of them in one trip.

A repeat is left out by a key of its own beside the stream, which is set in the same script that appends: so of two
tries of a delivery one is in the stream, also where the answer to the first one was lost. It is set behind the entry,
for what a script has written before it fails stays. What Redis has said is as durable as its appendfsync makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider
from redis.exceptions import RedisError

from timerd.adapters.redis.client import place_of, plainly
from timerd.model.errors import StartupError
from timerd.model.streams import StreamAway, StreamEntry, StreamTarget

# KEYS: the stream, the mark of the delivery. ARGV: seconds that the mark lives, the length that is kept (0: all), then
# names and values.
_ONCE = """
if redis.call('EXISTS', KEYS[2]) == 1 then return false end
local entry
if ARGV[2] == '0' then entry = redis.call('XADD', KEYS[1], '*', unpack(ARGV, 3))
else entry = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', unpack(ARGV, 3)) end
redis.call('SET', KEYS[2], '1', 'EX', ARGV[1])
return entry
"""


def open_stream(password_in: Callable[[str], str], target: StreamTarget) -> RedisStream:
    """`password_in`: reads the file that the target names. Raises StartupError."""
    if not target.password_file:
        return RedisStream(target, None)
    password = partial(password_in, target.password_file)
    password()
    return RedisStream(target, password)


class RedisStream:
    """Implements ports.StreamWriter. `password` is asked at each connection, so that a new one is taken up."""

    def __init__(self, target: StreamTarget, password: Callable[[], str] | None) -> None:
        self._target = target
        self._place = place_of(target.url)
        seconds = target.timeout_ms / 1_000
        credentials = _Credentials(target.user, password) if password is not None else None
        self._redis: Redis = Redis.from_url(
            target.url,
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            # The queue's own policy says when a task is tried again.
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            credential_provider=credentials,
        )
        self._once = self._redis.register_script(_ONCE)

    async def append(self, entries: Sequence[StreamEntry]) -> list[str]:
        try:
            async with self._redis.pipeline(transaction=False) as pipeline:
                for entry in entries:
                    await self._add(pipeline, entry)
                said = await pipeline.execute(raise_on_error=False)
        except (RedisError, OSError, StartupError) as error:
            raise StreamAway(f"Redis at {self._place}: {plainly(error)}.") from error
        return [f"Redis at {self._place}: {plainly(each)}." if isinstance(each, Exception) else "" for each in said]

    async def close(self) -> None:
        await self._redis.aclose()

    async def _add(self, pipeline: Any, entry: StreamEntry) -> None:  # noqa: ANN401 - redis-py's own types are not whole
        target = self._target
        if not target.repeats_known_s:
            fields: dict[Any, Any] = dict(entry.fields)
            pipeline.xadd(target.stream, fields, maxlen=target.max_length or None, approximate=True)
            return
        parts = [part for field in entry.fields.items() for part in field]
        keys = [target.stream, _mark(target.stream, entry.delivery_id)]
        await self._once(keys, [target.repeats_known_s, target.max_length, *parts], client=pipeline)


class _Credentials(CredentialProvider):
    def __init__(self, user: str, password: Callable[[], str]) -> None:
        self._user = user
        self._password = password

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        password = self._password()
        return (self._user, password) if self._user else (password,)


def _mark(stream: str, delivery_id: str) -> str:
    """In the slot of the stream, where Redis is a cluster."""
    tag = stream if "{" in stream else f"{{{stream}}}"
    return f"{tag}:timerd:{delivery_id}"
