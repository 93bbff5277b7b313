"""The page for people at /ui: files of this package. All that it shows it asks of the public API, in the name of who
looks at it.

It works without any other host: nothing is fetched from elsewhere, which the browser is told to refuse. What is sent is
made ready when a server starts: the modules as one script, and each file compressed as well.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from aiohttp import web

from timerd.config import own_version
from timerd.web.bundle import bundled

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
    "Vary": "Accept-Encoding",
}
# Asked again each time, answered with 304 where nothing changed: an upgrade is seen at once.
ASKED_AGAIN = "no-cache"
# Of what is asked for by the digest of its content.
KEPT = "public, max-age=31536000, immutable"
FIRST, SCRIPT = "index.html", "app.js"
_PAGE = '<div id="page"'


class PageFile(NamedTuple):
    """One file, ready to be sent. `packed`: by gzip."""

    body: bytes
    packed: bytes
    kind: str
    digest: str

    @classmethod
    def of(cls, name: str, body: bytes) -> PageFile:
        return cls(body, gzip.compress(body, mtime=0), KINDS[_kind(name)], sha256(body).hexdigest()[:32])

    def answer(self, request: web.Request) -> web.Response:
        """Nothing is read, and nothing compressed."""
        is_packed = "gzip" in request.headers.get("Accept-Encoding", "")
        etag = f'"{self.digest}-gzip"' if is_packed else f'"{self.digest}"'
        cache = KEPT if request.query_string == self.digest else ASKED_AGAIN
        headers = {**HEADERS, "Cache-Control": cache, "ETag": etag}
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers=headers)
        if is_packed:
            headers["Content-Encoding"] = "gzip"
        body = self.packed if is_packed else self.body
        return web.Response(body=body, content_type=self.kind, charset="utf-8", headers=headers)


def page_routes(*, may_act: bool) -> Iterable[web.AbstractRouteDef]:
    """`may_act`: whether the page offers changes. Whether somebody may make them is the server's to say."""
    found = page_files(may_act=may_act)

    async def get_file(request: web.Request) -> web.Response:
        file = found.get(request.match_info["name"] or FIRST)
        if file is None:
            raise web.HTTPNotFound(text="There is no such page: the first one is /ui/.")
        return file.answer(request)

    async def to_page(_request: web.Request) -> web.Response:
        # Relative: what stands before the server may have put it under a path of its own.
        return web.Response(status=302, headers={"Location": "ui/"})

    return [web.get("/", to_page), web.get("/ui", to_page), web.get("/ui/{name:.*}", get_file)]


def page_files(*, may_act: bool) -> Mapping[str, PageFile]:
    """Those of this package, and all modules as one script, for which the page asks in their place."""
    texts = {name: file.read_bytes() for name, file in _files("", files("timerd.web") / "ui")}
    modules = {name: text.decode() for name, text in texts.items() if name.endswith(".js")}
    texts[SCRIPT] = bundled("main.js", modules).encode()
    found = {name: PageFile.of(name, text) for name, text in texts.items()}
    page = texts[FIRST].decode()
    said = f'{_PAGE} data-may-act="{str(may_act).lower()}" data-version="{own_version()}"'
    for before, after in (
        (_PAGE, said),
        ('src="main.js"', f'src="{SCRIPT}?{found[SCRIPT].digest}"'),
        ('href="style.css"', f'href="style.css?{found["style.css"].digest}"'),
    ):
        page = page.replace(before, after)
    return {**found, FIRST: PageFile.of(FIRST, page.encode())}


def _files(before: str, folder: Traversable) -> Iterable[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _files(f"{before}{each.name}/", each)
        elif _kind(each.name) in KINDS:
            yield f"{before}{each.name}", each


def _kind(name: str) -> str:
    return name[name.rfind(".") :]
