"""The HTTP port. Its own routes are for those who watch: /metrics, /healthz, /readyz, /version; they change nothing and
show no task. What else it serves is given to it."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from timerd.config import own_version
from timerd.model.errors import StartupError
from timerd.services.transport.listen import Address

# Reason -> sentence.
Reasons = Mapping[str, str]
_LOG = logging.getLogger("timerd.http")


class HttpPort:
    """`metrics` makes the text; `unready` says why this instance cannot serve, part by part, and `dead` what only a
    restart would cure. `routes`: what is served beside these."""

    def __init__(
        self,
        metrics: Callable[[], Awaitable[bytes]],
        unready: Callable[[], Awaitable[Mapping[str, Reasons]]],
        dead: Callable[[], Reasons],
        routes: Iterable[web.AbstractRouteDef] = (),
    ) -> None:
        self._metrics = metrics
        self._unready = unready
        self._dead = dead
        app = web.Application()
        app.add_routes([
            web.get("/metrics", self._get_metrics),
            web.get("/healthz", self._get_healthz),
            web.get("/readyz", self._get_readyz),
            web.get("/version", self._get_version),
            *routes,
        ])  # fmt: skip
        _LOG.addFilter(_is_ours)
        # A call that is gone is given up, as in gRPC.
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, logger=_LOG, handler_cancellation=True, shutdown_timeout=1.0
        )

    async def start(self, address: Address, tls: ssl.SSLContext | None) -> Address:
        """Raises StartupError."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, address.host, address.port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise StartupError(
                f"Cannot listen on {address} for HTTP ({error.strerror}): choose another address with --http, or "
                "leave it out."
            ) from error
        return address._replace(port=self._runner.addresses[0][1])

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _get_metrics(self, _request: web.Request) -> web.Response:
        return web.Response(
            body=await self._metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def _get_healthz(self, _request: web.Request) -> web.Response:
        """That it answers says most: an event loop that hangs does not."""
        wrong = self._dead()
        return web.json_response({"alive": not wrong, "wrong": dict(wrong)}, status=503 if wrong else 200)

    async def _get_readyz(self, _request: web.Request) -> web.Response:
        wrong = {part: dict(reasons) for part, reasons in (await self._unready()).items()}
        return web.json_response({"ready": not wrong, "wrong": wrong}, status=503 if wrong else 200)

    async def _get_version(self, _request: web.Request) -> web.Response:
        return web.json_response({"version": own_version()})


def _is_ours(record: logging.LogRecord) -> bool:
    """What strangers send that is no HTTP is answered, and cannot fill the log."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)
