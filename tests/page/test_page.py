"""What people see and do on the page of a server, in a real browser."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.certificates import Authority
from tests.page.conftest import Served
from tests.process.children import Server
from timerd.client import RetryPolicy, TaskState
from timerd.demo.processes import free_port
from timerd.worker import Delivery, Worker

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.page.browser import Visit

pytestmark = pytest.mark.process
PAGES = ("", "queues", "queue/mails", "tasks", "live", "dead", "schedules", "schedule/nightly", "workers", "cluster")
ATTACKS = (
    "<script>hacked = true</script>",
    "<img src=x onerror='hacked = true'>",
    "\"><svg onload='hacked = true'>",
    "javascript:hacked=true",
    "{{constructor.constructor('hacked=true')()}}",
)
TOKEN = "a-token-of-an-operator-0123456789"
ONCE = RetryPolicy(max_attempts=1)


def fail(served: Served, queue: str, error: str, tasks: int) -> None:
    """A worker fails so many tasks of the queue. In a thread, for the browser has this one's loop."""

    async def work() -> None:
        worker, left, done = Worker(served.server.address), [tasks], asyncio.Event()

        @worker.on(queue)
        async def handle(_delivery: Delivery) -> None:
            left[0] -= 1
            if not left[0]:
                done.set()
            raise ValueError(error)

        running = asyncio.create_task(worker.run())
        await asyncio.wait_for(done.wait(), 60)
        await worker.stop()
        await running

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    thread.join()


@pytest.fixture(scope="module", autouse=True)
def load(served: Served) -> None:
    """An hour of mails, a task that has a name, one that is due and has no worker, and a schedule."""
    client = served.client
    client.schedule_many("mails", [(b"%d" % n, timedelta(minutes=1 + n % 50)) for n in range(500)])
    client.schedule("mails", b'{"user": 7}', delay=1800, key="welcome-7", labels={"tenant": "acme"})
    client.schedule("idle", b"", delay=0)
    client.schedules.create("nightly", cron="0 2 * * *", zone="Europe/Berlin", queue="reports")


def test_the_first_page_says_what_is_due_what_is_coming_and_what_is_wrong(visitor: Visit) -> None:
    visitor.open()
    visitor.sees("The queue idle has no worker, and 1 due.")
    assert visitor.page.locator(".map td a").count() >= 49
    visitor.row("mails").get_by_role("link", name="mails").click()
    visitor.sees("Queue mails")
    visitor.sees("PENDING")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_can_be_read_by_everybody_in_light_and_dark(browser: Browser, served: Served, scheme: str) -> None:
    """axe finds nothing, the console stays empty, and nobody else is asked for anything."""
    from tests.page.browser import visit

    with visit(browser, served.http, scheme) as seen:
        for place in PAGES:
            seen.open(place)
            seen.page.locator("main table, main .quiet").first.wait_for()
            assert (place, seen.findings()) == (place, [])
        assert seen.noise == []
        assert seen.asked == {served.http.removeprefix("http://")}


def test_on_a_telephone_nothing_is_wider_than_the_screen(browser: Browser, served: Served) -> None:
    from tests.page.browser import visit

    with visit(browser, served.http, width=360) as seen:
        for place in PAGES:
            seen.open(place)
            seen.page.locator("main h1").wait_for()
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360, place


def test_what_strangers_wrote_is_shown_as_text_and_runs_nowhere(browser: Browser, served: Served) -> None:
    """Payloads, keys, labels, errors and names of schedules' notes."""
    from tests.page.browser import visit

    client = served.client
    for place, attack in enumerate(ATTACKS):
        client.schedule("attacked", attack.encode(), delay=600 + place, key=attack, labels={"note": attack})
        client.schedule("dying", b"", delay=0, retry=ONCE)
    client.schedules.create("attacked", cron="0 3 * * *", queue="attacked")
    client.schedules.pause("attacked", note=ATTACKS[1])
    fail(served, "dying", " ".join(ATTACKS), len(ATTACKS))
    with visit(browser, served.http) as seen:
        seen.open("tasks?queue=attacked")
        seen.row(ATTACKS[0]).get_by_role("link").click()
        seen.sees("Payload")
        seen.sees(ATTACKS[0])
        seen.open("dead?queue=dying")
        seen.sees(ATTACKS[1])
        seen.open("schedule/attacked")
        seen.sees(ATTACKS[1])
        seen.open(f"queue/{ATTACKS[1]}")
        seen.page.locator("main .notice.error").wait_for()
        assert seen.page.evaluate("typeof hacked") == "undefined"
        # What the server refused, the browser notes.
        assert [line for line in seen.noise if "400" not in line] == []


def test_a_task_is_found_by_its_key_and_cancelled_with_the_keyboard_alone(visitor: Visit, served: Served) -> None:
    visitor.open("tasks")
    visitor.page.get_by_label("id or key").focus()
    visitor.page.keyboard.type("welcome-7")
    visitor.page.keyboard.press("Enter")
    visitor.row("welcome-7").get_by_role("link").focus()
    visitor.page.keyboard.press("Enter")
    visitor.sees('{"user": 7}')
    visitor.button("Cancel").first.focus()
    visitor.page.keyboard.press("Enter")
    visitor.page.get_by_role("dialog").get_by_role("button", name="Cancel").focus()
    visitor.page.keyboard.press("Enter")
    visitor.sees("The server says CANCELLED.")
    assert served.client.get(key="welcome-7").state is TaskState.CANCELLED
    visitor.sees("CANCELLED")


def test_a_task_is_moved_and_fired_at_once(visitor: Visit, served: Served) -> None:
    task = served.client.schedule("moved", b"", delay=3000)
    visitor.open(f"task/{task.id}")
    visitor.button("Move").first.click()
    visitor.page.get_by_label("in so many seconds").fill("7200")
    visitor.page.get_by_role("dialog").get_by_role("button", name="Move").click()
    visitor.sees("It fires at")
    assert served.client.get(task.id).fire_time > task.fire_time
    visitor.button("Fire now").first.click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Fire now").click()
    visitor.sees("It is due now.")
    visitor.open("queues")
    visitor.row("moved").wait_for()


def test_a_dead_letter_is_redriven(visitor: Visit, served: Served) -> None:
    task = served.client.schedule("flaky", b"", delay=0, retry=ONCE)
    fail(served, "flaky", "no such user", 1)
    visitor.open("dead?queue=flaky")
    visitor.sees("no such user")
    visitor.button("Redrive").first.click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Redrive", exact=True).click()
    visitor.sees("1 live again.")
    assert served.client.get(task.id).state is TaskState.PENDING
    visitor.open(f"task/{task.id}")
    visitor.sees("Attempts that failed")
    visitor.sees("no such user")


def test_dead_letters_are_purged_after_it_was_said_how_many_and_the_number_was_typed(
    visitor: Visit, served: Served
) -> None:
    client = served.client
    for _ in range(3):
        client.schedule("rotten", b"", delay=0, retry=ONCE)
    fail(served, "rotten", "no such user", 3)
    visitor.open("dead?queue=rotten")
    visitor.sees("no such user")
    dialog = visitor.page.get_by_role("dialog")
    visitor.button("Purge").press("Enter")
    # Also those that have died since the page asked how the server is.
    dialog.get_by_text("3 dead letters of rotten would be removed for good. So far nothing was.").wait_for()
    assert visitor.findings() == []
    dialog.get_by_label("Type 3 to remove them").fill("30")
    visitor.page.keyboard.press("Enter")
    dialog.get_by_text("This is not 3: nothing was removed.").wait_for()
    assert len(list(client.dead_letters("rotten"))) == 3
    dialog.get_by_label("Type 3 to remove them").fill("3")
    visitor.page.keyboard.press("Enter")
    visitor.sees("3 dead letters removed for good.")
    visitor.sees("None.")
    assert list(client.dead_letters("rotten")) == []
    assert visitor.noise == []


def test_a_schedule_is_paused_with_a_note_and_resumed(visitor: Visit, served: Served) -> None:
    visitor.open("schedule/nightly")
    visitor.sees("ACTIVE")
    visitor.button("Pause").first.click()
    visitor.page.get_by_label("why").fill("the bank is down")
    visitor.page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    visitor.sees("the bank is down")
    assert served.client.schedules.get("nightly").note == "the bank is down"
    visitor.button("Resume").first.click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    visitor.sees("It is active again.")


def test_a_queue_is_paused_with_a_note_says_what_its_tasks_wait_for_and_is_resumed(
    visitor: Visit, served: Served
) -> None:
    task = served.client.schedule("slow", b"", delay=0)
    visitor.open("queue/slow")
    visitor.button("Pause").first.click()
    visitor.page.get_by_role("dialog").get_by_label("why").fill("the partner is down")
    visitor.page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    visitor.sees("It is PAUSED, on every instance.")
    visitor.sees("the partner is down")
    assert served.client.queues.get("slow").mode.name == "PAUSED"
    visitor.open("queues")
    visitor.sees("PAUSED")
    visitor.open(f"task/{task.id}")
    visitor.sees("waits for")
    visitor.open("queue/slow")
    visitor.button("Resume").first.click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    visitor.sees("It is RUNNING, on every instance.")
    assert served.client.queues.get("slow").mode.name == "RUNNING"


def test_a_queue_shows_what_it_shares_with_others_in_figures(browser: Browser, served: Served) -> None:
    from tests.page.browser import visit

    client = served.client
    client.limits.put("printer", max_in_hand=5, rate="1/h", burst=1)
    client.queues.put("letters", limits=["printer"])
    client.queues.put("posters", limits=["printer"])
    with visit(browser, served.http) as seen:
        seen.open("queue/letters")
        seen.sees("printer: 0 of 5 with workers, 1 each 3600s, 1 at once, shared by 2 queues")


def test_a_server_that_is_gone_is_said_and_the_page_goes_on_when_it_is_back(browser: Browser, served: Served) -> None:
    from tests.page.browser import visit

    with visit(browser, served.http) as seen:
        seen.open("queues")
        seen.row("mails").wait_for()
        served.server.terminate()
        seen.sees("The server does not answer.")
        served.server.start()
        seen.page.locator("main .error").wait_for(state="detached")


def test_what_fires_is_seen_live_and_the_view_can_be_paused(visitor: Visit, served: Served) -> None:
    client = served.client

    def deliver(payload: bytes) -> str:
        task = client.schedule("fireworks", payload, delay=0)
        [received] = client.receive("fireworks", wait=20)
        client.finish(received)
        return task.id[38:48]

    visitor.open("live?queue=fireworks")
    visitor.page.locator("dd.good", has_text="live").wait_for()
    first = deliver(b"one")
    row = visitor.row(first)
    row.wait_for()
    visitor.page.locator("tbody tr", has_text="acked").filter(has_text=first).wait_for()
    visitor.button("Pause").focus()
    visitor.page.keyboard.press("Enter")
    visitor.page.locator("dd.warn", has_text="paused").wait_for()
    deliver(b"two")
    visitor.button("Go on").focus()
    visitor.page.keyboard.press("Enter")
    visitor.page.locator("dd.good", has_text="live").wait_for()
    third = deliver(b"three")
    visitor.row(third).wait_for()
    assert visitor.page.locator("tbody tr").count() == 2
    assert visitor.findings() == []
    row.get_by_role("link", name=first).click()
    visitor.sees("ACKED")
    assert visitor.noise == []


def test_what_is_too_much_to_read_is_counted_on_the_live_view(visitor: Visit, served: Served) -> None:
    client = served.client
    visitor.open("live?queue=flood")
    visitor.page.locator("dd.good", has_text="live").wait_for()
    client.schedule_many("flood", [(b"", timedelta(0))] * 900)
    left = 900
    while left:
        received = client.receive("flood", max=left, wait=20)
        left -= len(received)
        client.finish(received)
    visitor.page.locator(".strip div", has_text="left out").locator("dd.warn").wait_for()
    # What is shown and what is left out are all.
    visitor.page.wait_for_function(
        """() => [...document.querySelectorAll('.strip dd')].slice(1)
            .reduce((sum, each) => sum + Number(each.textContent.replaceAll(',', '')), 0) === 900"""
    )
    assert visitor.page.locator("tbody tr").count() <= 200


def test_the_overview_has_the_balance_of_the_ledger_and_the_canary(visitor: Visit) -> None:
    visitor.open()
    visitor.sees("0 unexplained")
    visitor.page.locator("p", has_text="Canary: the last one came through").locator(".good", has_text="ago").wait_for()


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[str]:
    """A server that asks who calls, and offers no changes: where its page is."""
    http, principals = f"127.0.0.1:{free_port()}", tmp_path / "principals"
    principals.write_text(f"ann  schedule,operate  sha256:{sha256(TOKEN.encode()).hexdigest()}\n")
    pair = Authority(tmp_path).sign("server", "IP:127.0.0.1")
    tls = ("--tls-cert", str(pair.certificate), "--tls-key", str(pair.key))
    server = Server(tmp_path, "--http", http, *tls, "--set", f"auth.principals_file={principals}")
    server.start()
    yield f"http://{http}"
    server.kill()


def test_where_the_server_asks_who_calls_the_page_asks_for_a_token(browser: Browser, strict: str) -> None:
    from tests.page.browser import visit

    with visit(browser, strict) as seen:
        seen.open("dead")
        seen.sees("Who are you?")
        seen.page.get_by_label("Your token").fill(TOKEN)
        seen.button("Go on").click()
        seen.sees("Dead letters")
        seen.sees("None.")


def test_a_page_that_only_looks_offers_no_changes(browser: Browser, served: Served, strict: str) -> None:
    from tests.page.browser import visit

    with visit(browser, strict) as seen:
        seen.page.add_init_script(f"sessionStorage.setItem('timerd-token', '{TOKEN}')")
        seen.open("tasks")
        seen.sees("None in this range.")
        for place in ("dead", "schedules", "tasks"):
            seen.open(place)
            seen.page.locator("main h1").wait_for()
            names = [each.inner_text() for each in seen.page.get_by_role("button").all()]
            assert [name for name in names if name != "Look"] == []
