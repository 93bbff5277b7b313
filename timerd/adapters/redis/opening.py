"""From what an operator wrote to a way for hints, tried once at the start.

A Redis that is away is no reason not to serve, since nothing needs it. One that is there and refuses is a mistake in
the settings, which nobody would notice later: hints would be lost for good, silently.
"""

from __future__ import annotations

import logging

from timerd.adapters.redis.client import Client, plainly
from timerd.adapters.redis.hints import AWAY, RedisHints
from timerd.config import RedisConfig
from timerd.model.errors import StartupError

log = logging.getLogger(__name__)
# Nobody listens here, and its name is allowed where those of instances are.
TRIED = "timerd:tried"


async def open_hints(config: RedisConfig) -> RedisHints:
    """Raises StartupError."""
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
