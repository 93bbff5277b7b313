"""Who writes Go or TypeScript, and has no Python but for the server: curl, then the client of each language."""

from __future__ import annotations

import re

from tests.clients.languages import GO, TYPESCRIPT, Language, one_at_a_time
from tests.docs import blocks
from tests.first_hour import pages
from tests.first_hour.desk import Desk

README, HTTP = "README.md", "docs/use/http.md"


def spend(desk: Desk) -> None:
    with desk.step("README: a server"):
        start, _ = pages.typed(pages.section(README, "Sixty seconds with Python"))
        desk.install(start)
        [dev] = pages.commands(start)
        desk.start(dev).shows("timerd is ready")
    _with_curl(desk, "README and HTTP: curl")
    for language in (GO, TYPESCRIPT):
        _with_client(desk, f"clients/{language.name}: call and work", language)


def _with_curl(desk: Desk, step: str) -> None:
    if desk.lacks(step, "curl", "jq"):
        return
    with desk.step(step):
        lines = [
            line
            for block in pages.typed(pages.section(README, "Any other language"))
            for line in pages.commands(block)
            if line.startswith("curl ")
        ]
        schedule, receive, finish = lines
        assert '"outcome": "stored"' in desk.type(schedule)
        [token] = re.findall(r'"ack_token": "([^"]+)"', desk.type(receive))
        assert '"finished": 1' in desk.type(finish.replace("TOKEN", token))
        for section in ("Schedule", "Look, move, cancel", "Work", "Errors"):
            for block in pages.fenced(pages.section(HTTP, section), "sh"):
                desk.type(block)


def _with_client(desk: Desk, step: str, language: Language) -> None:
    if reason := language.missing():
        desk.left_out[step] = reason
        return
    with desk.step(step):
        text = blocks.read(f"clients/{language.name}/README.md")
        before, run = pages.typed(text)
        desk.save(pages.files(text))
        with one_at_a_time():
            desk.type(before)
        working = desk.start(run)
        working.shows("tea is ready (attempt 1)")
        assert "CANCELLED" in working.shown()
        working.end()
