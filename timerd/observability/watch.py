"""Puts the watching of one instance together: its figures, its health, its HTTP port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from aiohttp import web

from timerd.config import ServerConfig
from timerd.observability.collector import exposition
from timerd.observability.figures import Observed
from timerd.observability.http import HttpPort
from timerd.services.health.health_board import LIVE, STORE
from timerd.services.readiness import ReadinessProbe
from timerd.services.transport.listen import check_http, is_plain_http
from timerd.services.transport.tls import TlsFiles, http_context

STORE_TIMEOUT_S = 2.0


class Watch:
    """From `start` to `stop`. `ask_store`: any call that the store must answer. `routes`: what else its port serves."""

    def __init__(
        self,
        observed: Observed,
        probe: ReadinessProbe,
        ask_store: Callable[[], Awaitable[object]],
        routes: Iterable[web.AbstractRouteDef] = (),
    ) -> None:
        self._observed = observed
        self._probe = probe
        self._ask_store = ask_store
        self._port = HttpPort(self._metrics, self._ready, lambda: probe.board.wrong(LIVE), routes)

    async def start(self, config: ServerConfig) -> str:
        """HOST:PORT, or "" without one. Raises StartupError."""
        address = check_http(config)
        if address is None:
            return ""
        self._observed.loop_lag.start()
        tls = None if is_plain_http(config) else http_context(TlsFiles(config.tls), config.tls)
        return str(await self._port.start(address, tls))

    async def stop(self) -> None:
        self._observed.loop_lag.stop()
        await self._port.stop()

    async def _metrics(self) -> bytes:
        """The text is made in a thread: the loop has tasks to fire."""
        return await asyncio.to_thread(exposition, await self._observed.figures())

    async def _ready(self) -> Mapping[str, Mapping[str, str]]:
        """Where no canary asks the store, it is asked now."""
        if self._probe.canary is None:
            self._probe.board.put(STORE, "read", await self._store())
        self._probe.look()
        return self._probe.board.everything()

    async def _store(self) -> str:
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                await self._ask_store()
        except TimeoutError:
            return f"The store has not answered within {STORE_TIMEOUT_S:g} s."
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            return f"The store does not answer: {error}"
        return ""
