"""Who may call at all. For a browser loopback is no boundary: a page of a stranger can send requests to it, and reach
it by a name of its own that leads there. So the name must be one that is known, and the page must come from it.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiohttp import web

from timerd.config import ServerConfig
from timerd.model.errors import Denied, Unauthenticated
from timerd.services.transport.listen import is_loopback, is_plain_http, parse_listen

_WILDCARDS = {"0.0.0.0", "::"}
_READING = {"GET", "HEAD"}
PLAIN = (
    "Callers are not served here, for this port is plain HTTP beyond loopback (http.insecure): their tokens and tasks "
    "could be read on the way. Use https, or gRPC."
)


class Guard:
    """`check` lets a request pass, or says why it may not."""

    def __init__(self, names: Iterable[str], *, is_closed: bool = False, needs_certificate: bool = False) -> None:
        self._names = {name.lower() for name in names}
        self._is_closed = is_closed
        self._needs_certificate = needs_certificate

    def check(self, request: web.Request) -> None:
        """Raises Denied or Unauthenticated."""
        if self._is_closed:
            raise Denied(PLAIN, "PLAIN_HTTP")
        self._check_host(request)
        self._check_origin(request)
        if self._needs_certificate and not _shows_certificate(request):
            raise Unauthenticated(
                "Callers of this server show a client certificate: use https, with the one that was agreed on.",
                "UNAUTHENTICATED",
            )

    def _check_host(self, request: web.Request) -> None:
        name = name_of(request.headers.get("Host", ""))
        if not (is_loopback(name) or name in self._names):
            raise Denied(
                f"This server is not known as {name[:100]!r}: call it by a name of loopback or one of its setting "
                "http.names, where its operator may add this one.",
                "HOST_UNKNOWN",
            )

    def _check_origin(self, request: web.Request) -> None:
        origin, host = request.headers.get("Origin"), request.headers.get("Host", "")
        is_same = origin is None or origin.partition("://")[2].lower() == host.lower()
        site = request.headers.get("Sec-Fetch-Site", "same-origin")
        if not is_same or (site != "same-origin" and request.method not in _READING):
            raise Denied("A page of another origin may not call this server from a browser.", "ORIGIN_UNKNOWN")


def guard_of(config: ServerConfig) -> Guard:
    """By the settings of a server with an HTTP port."""
    listens = parse_listen(config.http.listen).host
    return Guard(
        [*config.http.names, *({listens} - _WILDCARDS)],
        is_closed=is_plain_http(config) and not (is_loopback(listens) or config.insecure),
        needs_certificate=config.tls.client_ca_file is not None,
    )


def name_of(host: str) -> str:
    """Without the port: `[::1]:7401` is `::1`."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _shows_certificate(request: web.Request) -> bool:
    return bool(request.get_extra_info("peercert"))
