"""Implements Hints: each channel is one of Redis's, a message is published once and heard by those who listen then.

A hint that is a second old is worth nothing, since the holder's sweep has met its rows. So nothing is kept for later:
while Redis is away, messages are lost at once, and it is tried again after a pause. Callers never wait for Redis.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from timerd.adapters.redis.client import Client, plainly
from timerd.config import RedisConfig
from timerd.model.errors import StartupError
from timerd.ports import Heard

log = logging.getLogger(__name__)
# In one round trip, and waiting for the next.
BATCH_BYTES = 1 << 20
WAITING_BYTES = 8 << 20
# Until Redis is tried again, doubled with each failure.
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0
# How often a listener looks whether its channel is another one now.
LOOK_S = 0.5
# When it has heard nothing for so long it asks whether Redis is there, and how long the answer may take.
QUIET_S = 5.0
ANSWER_S = 2.0
AWAY = (RedisError, OSError, TimeoutError)
# Nobody listens here, and its name is allowed where those of instances are.
TRIED = "timerd:tried"


class RedisHints:
    def __init__(self, client: Client) -> None:
        self.lost = 0
        self._client = client
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._waiting_bytes = 0
        self._sending: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._send_pauses, self._listen_pauses = Pauses(), Pauses()
        self._is_away = False

    def send(self, channel: str, message: bytes) -> bool:
        if self._send_pauses.is_on() or self._waiting_bytes + len(message) > WAITING_BYTES:
            self.lost += 1
            return False
        self._waiting.append((channel, message))
        self._waiting_bytes += len(message)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send_waiting())
        return True

    def listen(self, channel: Callable[[], str], heard: Heard) -> None:
        self._listening = asyncio.get_running_loop().create_task(self._listen(channel, heard))

    async def close(self) -> None:
        tasks = [task for task in (self._sending, self._listening) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    # -- sending --------------------------------------------------------------------------------------------------

    async def _send_waiting(self) -> None:
        """What comes meanwhile goes with the next round trip."""
        while self._waiting:
            batch = self._take()
            try:
                heard = await self._client.publish(batch)
            except AWAY as error:
                self.lost += len(batch) + len(self._waiting)
                self._waiting.clear()
                self._waiting_bytes = 0
                self._send_pauses.failed()
                self._went(error)
                return
            self.lost += heard.count(0)
            self._send_pauses.worked()
            self._came_back()

    def _take(self) -> list[tuple[str, bytes]]:
        """About as much as one round trip takes; at least one."""
        batch = [self._waiting.popleft()]
        batch_bytes = len(batch[0][1])
        while self._waiting and batch_bytes + len(self._waiting[0][1]) <= BATCH_BYTES:
            batch.append(self._waiting.popleft())
            batch_bytes += len(batch[-1][1])
        self._waiting_bytes -= batch_bytes
        return batch

    # -- listening ------------------------------------------------------------------------------------------------

    async def _listen(self, channel: Callable[[], str], heard: Heard) -> None:
        while True:
            try:
                async with self._client.subscriber() as subscriber:
                    await self._hear(subscriber, channel, heard)
            except AWAY as error:
                self._went(error)
            await asyncio.sleep(self._listen_pauses.failed())

    async def _hear(self, subscriber: PubSub, channel: Callable[[], str], heard: Heard) -> None:
        """Until Redis is away."""
        current, pulse = "", Pulse()
        while True:
            if current != channel():
                if current:
                    await subscriber.unsubscribe(current)
                current = channel()
                await subscriber.subscribe(current)
            message = await subscriber.get_message(timeout=LOOK_S)
            if message is None:
                await pulse.look(subscriber)
                continue
            pulse.felt()
            self._listen_pauses.worked()
            self._came_back()
            if message["type"] == "message" and message["channel"] == current.encode():
                heard(current, message["data"])

    # -- what operators are told: that it went, and that it came back ---------------------------------------------

    def _went(self, error: Exception) -> None:
        if not self._is_away:
            self._is_away = True
            log.warning(
                "Redis at %s does not answer (%s). Instances that cannot call each other find new tasks by their "
                "sweep, up to a second late.",
                self._client.place,
                plainly(error),
            )

    def _came_back(self) -> None:
        if self._is_away:
            self._is_away = False
            log.info("Redis at %s answers again.", self._client.place)


class Pulse:
    """Of a connection on which nothing may come for hours: one that was cut looks just like it."""

    def __init__(self) -> None:
        self._felt_s = asyncio.get_running_loop().time()
        self._asked_s = 0.0

    def felt(self) -> None:
        self._felt_s, self._asked_s = asyncio.get_running_loop().time(), 0.0

    async def look(self, subscriber: PubSub) -> None:
        """Raises TimeoutError where there is none."""
        now_s = asyncio.get_running_loop().time()
        if self._asked_s and now_s > self._asked_s + ANSWER_S:
            raise TimeoutError
        if not self._asked_s and now_s > self._felt_s + QUIET_S:
            self._asked_s = now_s
            await subscriber.ping()


class Pauses:
    """Between tries that fail."""

    def __init__(self) -> None:
        self._next_s = FIRST_PAUSE_S
        self._until_s = 0.0

    def is_on(self) -> bool:
        return bool(self._until_s) and asyncio.get_running_loop().time() < self._until_s

    def failed(self) -> float:
        """How long to wait now."""
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, LONGEST_PAUSE_S)
        self._until_s = asyncio.get_running_loop().time() + pause_s
        return pause_s

    def worked(self) -> None:
        self._next_s, self._until_s = FIRST_PAUSE_S, 0.0


async def open_hints(config: RedisConfig) -> RedisHints:
    """From what an operator wrote, tried once. A Redis that is away is no reason not to serve, since nothing needs it.
    One that is there and refuses is a mistake in the settings, which nobody would notice later: hints would be lost
    for good, silently. Raises StartupError."""
    client = Client(config)
    try:
        await client.check(TRIED)
    except StartupError:
        await client.close()
        raise
    except AWAY as error:
        log.warning(
            "No Redis answers at %s (%s): this instance serves without it, and goes on trying.",
            client.place,
            plainly(error),
        )
    return RedisHints(client)
