"""The files of the page: what a browser is told with them, and what is not there."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

import pytest

from tests.web.rig import CONFIG, HTTP, serving
from timerd.config import HttpConfig


async def test_the_page_is_served_with_a_policy_that_lets_it_ask_nobody_else() -> None:
    async with serving() as rig:
        page = await rig.caller.ask("GET", "/ui/")
        assert page.status == 200
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "default-src 'none'; script-src 'self'" in page.headers["Content-Security-Policy"]
        assert page.headers["X-Content-Type-Options"] == "nosniff"


_NAMED = re.compile(rb'(?:src|href)="([^"]+)"')
_KEPT = "public, max-age=31536000, immutable"


async def test_all_that_the_page_names_is_there_and_its_script_asks_for_no_other() -> None:
    async with serving() as rig:
        names = [each.decode() for each in _NAMED.findall((await rig.caller.ask("GET", "/ui/")).body)]
        assert [name.partition("?")[0] for name in names] == ["icon.svg", "style.css", "app.js"]
        answers = [await rig.caller.ask("GET", f"/ui/{name}") for name in names]
        assert [each.status for each in answers] == [200, 200, 200]
        assert re.search(rb"^(import|export)\b", answers[2].body, re.MULTILINE) is None


async def test_what_is_named_by_its_content_is_kept_and_an_upgrade_is_seen_at_once() -> None:
    """The page itself is asked for again, and names other files where they are others."""
    async with serving() as rig:
        page = await rig.caller.ask("GET", "/ui/")
        style, script = [each.decode() for each in _NAMED.findall(page.body)][1:]
        for name in (style, script):
            assert (await rig.caller.ask("GET", f"/ui/{name}")).headers["Cache-Control"] == _KEPT
        for name in ("", style.partition("?")[0], f"{script}0", "app.js?of-an-earlier-release"):
            assert (await rig.caller.ask("GET", f"/ui/{name}")).headers["Cache-Control"] == "no-cache", name


async def test_who_takes_it_compressed_gets_the_same() -> None:
    async with serving() as rig:
        plain = await rig.caller.ask("GET", "/ui/app.js", headers={"Accept-Encoding": "identity"})
        packed = await rig.caller.ask("GET", "/ui/app.js", headers={"Accept-Encoding": "gzip, br"})
        assert "Content-Encoding" not in plain.headers
        assert packed.headers["Content-Encoding"] == "gzip"
        # The client of this test unpacks by itself.
        assert packed.body == plain.body
        assert int(packed.headers["Content-Length"]) < len(plain.body) / 2
        assert packed.headers["Etag"] != plain.headers["Etag"]
        assert packed.headers["Vary"] == "Accept-Encoding"


async def test_what_has_not_changed_is_not_sent_again() -> None:
    async with serving() as rig:
        first = await rig.caller.ask("GET", "/ui/main.js")
        again = await rig.caller.ask("GET", "/ui/main.js", headers={"If-None-Match": first.headers["Etag"]})
        assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/ui/nothing.js", "/ui/../pages.py", "/ui/%2e%2e/pages.py", "/ui/vendor", "/ui//etc/passwd"]
)
async def test_nothing_but_the_page_is_served(path: str) -> None:
    async with serving() as rig:
        assert (await rig.caller.ask("GET", path)).status == 404


async def test_the_root_leads_to_the_page_wherever_a_proxy_has_put_it() -> None:
    async with serving() as rig:
        found = await rig.caller.ask("GET", "/")
        assert found.status == 200
        assert b'<div id="page"' in found.body


@pytest.mark.parametrize(("setting", "may_act"), [("view", False), ("act", True)])
async def test_it_offers_changes_only_where_the_setting_says_so(setting: Literal["view", "act"], may_act: bool) -> None:
    config = replace(CONFIG, http=replace(HTTP, page=setting))
    async with serving(config) as rig:
        page = await rig.caller.ask("GET", "/ui/")
        assert f'data-may-act="{str(may_act).lower()}"'.encode() in page.body


@pytest.mark.parametrize("http", [replace(HTTP, page="off"), replace(HTTP, calls=False)])
async def test_there_is_none_where_it_is_turned_off_or_nobody_is_served(http: HttpConfig) -> None:
    async with serving(replace(CONFIG, http=http)) as rig:
        assert (await rig.caller.ask("GET", "/ui/")).status == 404
