"""`python -m tests.page` draws the pictures of docs/use/page.md anew: a real browser, a server with an hour of load."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from playwright.sync_api import ViewportSize

from tests.page.browser import chromium
from tests.process.children import Server
from timerd.client import SyncClient
from timerd.demo.processes import free_port

PLOTS = Path(__file__).resolve().parents[2] / "docs" / "plots"
# What a window of 1,280 points shows at 80 % and at 200 %.
PICTURES = (
    ("page-overview", "", 1600, 0.8),
    ("page-live", "live", 1600, 0.8),
    ("page-queue-200", "queue/mails", 640, 2.0),
)
HOUR_S = 3600
LOAD = {"mails": 9000, "bills": 2500, "reports": 400, "exports": 90}


def fill(client: SyncClient) -> None:
    drawn = random.Random(7)
    for queue, tasks in LOAD.items():
        due = [int(drawn.betavariate(2, 3) * HOUR_S) + 60 for _ in range(tasks)]
        client.schedule_many(queue, [(b'{"user": 7}', seconds) for seconds in due], labels={"tenant": "acme"})
    client.schedules.create("nightly", cron="0 2 * * *", zone="Europe/Berlin", queue="reports")


def fire(client: SyncClient) -> None:
    """Some deliveries that end well, one that fails, and one that is still with its worker."""
    for queue in (*LOAD, *LOAD, "calls"):
        client.schedule(queue, b"", delay=0)
        [task] = client.receive(queue, max=1, wait=10)
        if queue == "calls":
            continue
        failed = queue == "exports"
        client.finish(task, "nack" if failed else "ack", error="no such customer" if failed else "")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        http = f"127.0.0.1:{free_port()}"
        server = Server(Path(folder), "--http", http)
        server.start()
        with SyncClient(server.address) as client:
            fill(client)
        for name, place, width, scale in PICTURES:
            size = ViewportSize(width=width, height=int(900 / scale * 0.8))
            page = browser.new_page(viewport=size, device_scale_factor=scale)
            page.goto(f"http://{http}/ui/#/{place}")
            page.locator(".map, svg.bars, dd.good").first.wait_for()
            if place == "live":
                with SyncClient(server.address) as client:
                    fire(client)
            page.wait_for_timeout(3_000)
            page.screenshot(path=PLOTS / f"{name}.png")
        server.kill()


if __name__ == "__main__":
    main()
