"""The files of the page: what a browser is told with them, and what is not there."""

from __future__ import annotations

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


async def test_every_script_that_the_page_names_is_there() -> None:
    async with serving() as rig:
        for name in ("main.js", "vendor/htm-preact.js", "pages/overview.js", "style.css", "icon.svg"):
            assert (await rig.caller.ask("GET", f"/ui/{name}")).status == 200, name


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
        assert b'<div id="page">' in found.body


@pytest.mark.parametrize(("setting", "may_act"), [("view", False), ("act", True)])
async def test_it_offers_changes_only_where_the_setting_says_so(setting: Literal["view", "act"], may_act: bool) -> None:
    config = replace(CONFIG, http=replace(HTTP, page=setting))
    async with serving(config) as rig:
        assert (await rig.caller.ask("GET", "/ui/settings.json")).json["may_act"] is may_act


@pytest.mark.parametrize("http", [replace(HTTP, page="off"), replace(HTTP, calls=False)])
async def test_there_is_none_where_it_is_turned_off_or_nobody_is_served(http: HttpConfig) -> None:
    async with serving(replace(CONFIG, http=http)) as rig:
        assert (await rig.caller.ask("GET", "/ui/")).status == 404
