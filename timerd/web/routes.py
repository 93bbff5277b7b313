"""What the HTTP port serves to callers."""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from timerd.config import ServerConfig
from timerd.services.transport.local_calls import LocalCalls
from timerd.web.audit_routes import AUDIT_ROUTES
from timerd.web.front import Front, HttpCall
from timerd.web.guard import guard_of
from timerd.web.openapi import document
from timerd.web.pages import page_routes
from timerd.web.route import ShortRoute
from timerd.web.rpc import rpc_routes
from timerd.web.task_routes import TASK_ROUTES
from timerd.web.turnstile import Turnstile
from timerd.web.unknown import UNKNOWN_PATH, answer_unknown
from timerd.web.watch_routes import WATCH_ROUTES
from timerd.web.work_routes import WORK_ROUTES

SHORT_ROUTES = (*TASK_ROUTES, *WORK_ROUTES, *WATCH_ROUTES, *AUDIT_ROUTES)


def routes_of(config: ServerConfig, calls: LocalCalls) -> Iterable[web.AbstractRouteDef]:
    """None where the settings say so."""
    if not config.http.calls:
        return []
    front = Front(calls, guard_of(config), Turnstile())
    short = [_short(front, route) for route in SHORT_ROUTES]
    pages = [] if config.http.page == "off" else page_routes(may_act=config.http.page == "act")
    # Last: it takes what no other route takes.
    unknown = web.route("*", UNKNOWN_PATH, front.handler(answer_unknown))
    return [*rpc_routes(front), *short, *pages, web.get("/openapi.json", front.handler(_openapi)), unknown]


def _short(front: Front, route: ShortRoute) -> web.RouteDef:
    return web.route(route.verb, route.path, front.handler(route.respond, is_endless=route.is_endless))


async def _openapi(_: HttpCall) -> web.StreamResponse:
    return web.Response(text=document(SHORT_ROUTES), content_type="application/json")
