"""The HTTP port for those who watch: /metrics, /healthz, /readyz, /version. It changes nothing and shows no task."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import version

from aiohttp import web

from timerd.model.errors import StartupError
from timerd.services.listen import Address

# What a check says: a sentence where something is wrong.
Check = Callable[[], Awaitable[str]]
CHECK_PATIENCE_S = 2.0


class HttpPort:
    """`metrics` makes the text; `checks` say whether this instance can serve."""

    def __init__(self, metrics: Callable[[], Awaitable[bytes]], checks: Mapping[str, Check]) -> None:
        self._metrics = metrics
        self._checks = checks
        app = web.Application()
        app.add_routes([
            web.get("/metrics", self._get_metrics),
            web.get("/healthz", self._get_healthz),
            web.get("/readyz", self._get_readyz),
            web.get("/version", self._get_version),
        ])  # fmt: skip
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)

    async def start(self, address: Address, tls: ssl.SSLContext | None) -> Address:
        """Raises StartupError."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, address.host, address.port, ssl_context=tls, shutdown_timeout=1.0)
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
        """That it answers is the answer: a restart cures a loop that hangs, and nothing else is asked here."""
        return web.json_response({"alive": True})

    async def _get_readyz(self, _request: web.Request) -> web.Response:
        found = dict(zip(self._checks, await asyncio.gather(*map(_surely, self._checks.values())), strict=True))
        wrong = {name: sentence for name, sentence in found.items() if sentence}
        return web.json_response({"ready": not wrong, "wrong": wrong}, status=503 if wrong else 200)

    async def _get_version(self, _request: web.Request) -> web.Response:
        return web.json_response({"version": version("timerd")})


async def _surely(check: Check) -> str:
    try:
        return await asyncio.wait_for(check(), CHECK_PATIENCE_S)
    except TimeoutError:
        return f"no answer within {CHECK_PATIENCE_S:g} s"
