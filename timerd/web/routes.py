"""What the HTTP port serves to callers."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from timerd.config import ServerConfig
from timerd.services.transport.local_calls import LocalCalls
from timerd.web.front import Front
from timerd.web.guard import guard_of
from timerd.web.pages import page_routes
from timerd.web.rpc import rpc_routes
from timerd.web.turnstile import Turnstile


def routes_of(config: ServerConfig, calls: LocalCalls) -> Iterable[web.AbstractRouteDef]:
    """None where the settings say so."""
    if not config.http.calls:
        return []
    front = Front(calls, guard_of(config), Turnstile())
    pages = [] if config.http.page == "off" else page_routes(may_act=config.http.page == "act")
    return [*rpc_routes(front), *pages]
