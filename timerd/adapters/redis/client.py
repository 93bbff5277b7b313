"""One connection to publish and one to subscribe, by what an operator wrote.

Neither is repeated inside the client: the caller knows better what a failure costs. The URL may carry a password, so
it is in no message and no log line; `place` is what may be shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError

from timerd.config import RedisConfig
from timerd.model.errors import StartupError

# A Redis that hangs is as good as none.
ANSWER_S = 1.0
SCHEMES = ("redis", "rediss", "unix")
WRITTEN = "write redis://HOST:PORT, rediss://HOST:PORT for TLS, or unix:///PATH"


class Client:
    """Raises StartupError where the settings say nothing that Redis's client understands."""

    def __init__(self, config: RedisConfig) -> None:
        url = config.url.get_secret_value()
        self.place = place_of(url)
        options: dict[str, Any] = {
            "socket_timeout": ANSWER_S,
            "socket_connect_timeout": ANSWER_S,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
        }
        if config.user:
            options["username"] = config.user
        if config.password.get_secret_value():
            options["password"] = config.password.get_secret_value()
        try:
            self._redis: Redis = Redis.from_url(url, **options)
        except (ValueError, TypeError):
            # Its text would repeat the URL, password and all.
            raise StartupError(f"The URL of Redis cannot be used: {WRITTEN}.") from None
        # What the URL says wins inside the client; a password that is given by itself is meant.
        self._redis.connection_pool.connection_kwargs.update(options)

    async def check(self, channel: str) -> None:
        """Raises StartupError where Redis is there and does not let this instance in; an error of Redis's client or of
        the network where it is not there."""
        try:
            await self._redis.publish(channel, b"")
            async with self.subscriber() as subscriber:
                await subscriber.subscribe(channel)
                await subscriber.get_message(timeout=ANSWER_S)
        except (AuthenticationError, NoPermissionError, ResponseError) as error:
            raise StartupError(self._refused(str(error))) from None
        except TypeError:
            # An option of the URL that the client does not know; it says so when it connects.
            raise StartupError(f"The URL of Redis cannot be used: {WRITTEN}.") from None

    async def publish(self, batch: Sequence[tuple[str, bytes]]) -> list[int]:
        """How many listened to each."""
        async with self._redis.pipeline(transaction=False) as pipeline:
            for channel, message in batch:
                pipeline.publish(channel, message)
            heard: list[int] = await pipeline.execute()
        return heard

    def subscriber(self) -> PubSub:
        return self._redis.pubsub()

    async def close(self) -> None:
        await self._redis.aclose()

    def _refused(self, words: str) -> str:
        """None of Redis's own words repeats a password, but they are for programmers."""
        to_do = "Put the right one into TIMERD_REDIS_PASSWORD (and the user into TIMERD_REDIS_USER, if there is one)."
        if "without any password configured" in words:
            return (
                f"Redis at {self.place} has no password, and one was given: leave it out, or give Redis one "
                "(requirepass)."
            )
        if "WRONGPASS" in words or "invalid username-password" in words or "invalid password" in words:
            return f"Redis at {self.place} does not take the password that was given. {to_do}"
        if "NOPERM" in words or "no permissions" in words:
            return (
                f"The user that was given may not publish and subscribe in Redis at {self.place}: allow it +publish, "
                "+subscribe, +unsubscribe, +ping and the channels timerd:* (ACL SETUSER)."
            )
        if "uthentication required" in words or "NOAUTH" in words:
            return f"Redis at {self.place} asks for a password, and none was given. {to_do}"
        return f"Redis at {self.place} does not publish messages: {words}."


def place_of(url: str) -> str:
    """Without user and password. Raises StartupError."""
    try:
        parts = urlsplit(url)
        port = parts.port or 6379
    except ValueError:
        raise StartupError(f"The URL of Redis cannot be used: {WRITTEN}.") from None
    if parts.scheme not in SCHEMES or not (parts.hostname or parts.path):
        raise StartupError(f"The URL of Redis cannot be used: {WRITTEN}.")
    return parts.path if parts.scheme == "unix" else f"{parts.hostname}:{port}"


def plainly(error: Exception) -> str:
    """For the middle of a sentence. Redis's client repeats neither the URL nor a password."""
    return str(error).rstrip(".") or type(error).__name__
