"""The page for people at /ui: files of this package, served as they are. All that it shows it asks of the public API,
in the name of who looks at it.

It works without any other host: nothing is built, and nothing is fetched from elsewhere, which the browser is told to
refuse.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from aiohttp import web

KINDS = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # Asked again each time, answered with 304 where nothing changed: an upgrade is seen at once.
    "Cache-Control": "no-cache",
}


class PageFile(NamedTuple):
    """One file, ready to be sent."""

    body: bytes
    kind: str
    etag: str


def page_routes(*, may_act: bool) -> Iterable[web.AbstractRouteDef]:
    """`may_act`: whether the page offers changes. Whether somebody may make them is the server's to say."""
    found = {name: _read(file) for name, file in _files("", files("timerd.web") / "ui")}
    settings = {"may_act": may_act, "version": version("timerd")}

    async def get_file(request: web.Request) -> web.Response:
        file = found.get(request.match_info["name"] or "index.html")
        if file is None:
            raise web.HTTPNotFound(text="There is no such page: the first one is /ui/.")
        headers = {**HEADERS, "ETag": file.etag}
        if request.headers.get("If-None-Match") == file.etag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=file.body, content_type=file.kind, charset="utf-8", headers=headers)

    async def get_settings(_request: web.Request) -> web.Response:
        return web.json_response(settings, headers=HEADERS)

    async def to_page(_request: web.Request) -> web.Response:
        # Relative: what stands before the server may have put it under a path of its own.
        return web.Response(status=302, headers={"Location": "ui/"})

    return [
        web.get("/", to_page),
        web.get("/ui", to_page),
        web.get("/ui/settings.json", get_settings),
        web.get("/ui/{name:.*}", get_file),
    ]


def _files(before: str, folder: Traversable) -> Iterable[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _files(f"{before}{each.name}/", each)
        elif _kind(each.name) in KINDS:
            yield f"{before}{each.name}", each


def _read(file: Traversable) -> PageFile:
    body = file.read_bytes()
    return PageFile(body, KINDS[_kind(file.name)], f'"{sha256(body).hexdigest()[:32]}"')


def _kind(name: str) -> str:
    return name[name.rfind(".") :]
