"""A real Chromium that looks at a real server's page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Locator, Page, Request, ViewportSize, expect, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "needs Chromium (apt-get install chromium)"
# A busy machine draws late; nothing is asserted about when.
PATIENCE_MS = 60_000


def is_required() -> bool:
    return os.environ.get("CI") == "true"


@dataclass
class Visit:
    """One tab. `noise`: what the page wrote on the console, errors included; `asked`: hosts that it asked."""

    page: Page
    base: str
    noise: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    def open(self, place: str = "") -> None:
        self.page.goto(f"{self.base}/ui/#/{place}")

    def sees(self, text: str) -> None:
        expect(self.page.locator("main")).to_contain_text(text)

    def row(self, text: str) -> Locator:
        return self.page.locator("tbody tr", has_text=text)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def findings(self) -> list[str]:
        """What axe has against the page as it is."""
        found = Axe().run(self.page).response["violations"]
        return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]

    def dismiss(self, dialog: Dialog) -> None:
        self.noise.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def hear(self, request: Request) -> None:
        self.asked.add(request.url.split("/")[2])


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Without its sandbox, which a container does not let it have; it visits our own page only.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        expect.set_options(timeout=PATIENCE_MS)
        yield browser
        browser.close()


@contextmanager
def visit(browser: Browser, base: str, scheme: str = "light", width: int = 1280) -> Iterator[Visit]:
    """Certificates are those of a test, signed by nobody that the browser knows."""
    size = ViewportSize(width=width, height=900)
    colours: Literal["dark", "light"] = "dark" if scheme == "dark" else "light"
    page = browser.new_page(color_scheme=colours, viewport=size, ignore_https_errors=True)
    page.set_default_timeout(PATIENCE_MS)
    seen = Visit(page, base)
    page.on("console", lambda message: seen.noise.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen.noise.append(f"error: {error}"))
    page.on("dialog", seen.dismiss)
    page.on("request", seen.hear)
    yield seen
    page.close()
