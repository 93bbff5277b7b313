"""Puts the watching of one instance together: its figures, its checks, its HTTP port."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from timerd.config import ServerConfig
from timerd.observability.collector import exposition
from timerd.observability.figures import Observed
from timerd.observability.http import HttpPort
from timerd.services.engine_time import EngineTime
from timerd.services.health_board import API
from timerd.services.listen import check_http
from timerd.services.server import ApiServer
from timerd.services.tls import TlsFiles, http_context


class Watch:
    """From `start` to `stop`. `ask_store`: any call that the store must answer."""

    def __init__(
        self, observed: Observed, server: ApiServer, time: EngineTime, ask_store: Callable[[], Awaitable[object]]
    ) -> None:
        self._observed = observed
        self._server = server
        self._time = time
        self._ask_store = ask_store
        checks = {"api": self._api, "clock": self._clock, "store": self._store}
        self._port = HttpPort(self._metrics, checks)

    async def start(self, config: ServerConfig) -> str:
        """HOST:PORT, or "" without one. Raises StartupError."""
        address = check_http(config)
        if address is None:
            return ""
        self._observed.loop_lag.start()
        is_plain = config.http.insecure or config.tls.certificate_file is None
        tls = None if is_plain else http_context(TlsFiles(config.tls), config.tls)
        return str(await self._port.start(address, tls))

    async def stop(self) -> None:
        self._observed.loop_lag.stop()
        await self._port.stop()

    async def _metrics(self) -> bytes:
        """The text is made in a thread: the loop has tasks to fire."""
        return await asyncio.to_thread(exposition, await self._observed.figures())

    async def _api(self) -> str:
        return self._server.board.wrong(API).get("away", "")

    async def _clock(self) -> str:
        return self._time.doubt

    async def _store(self) -> str:
        try:
            await self._ask_store()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            return f"the store does not answer: {error}"
        return ""
