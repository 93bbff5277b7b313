"""One list of scenarios for the clients of all languages, on a real server: each tells the same story in each of them.

What the clients say is compared with what the Python client sees.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tests.clients.conftest import Served
from tests.clients.driver import Driver, Refused
from tests.process.children import Server
from tests.process.conftest import Children
from tests.process.waiting import until
from tests.services.access_rig import proof
from timerd.client import CancelOutcome, SyncClient, TaskState
from timerd.demo.processes import free_port

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
Drive = Callable[..., Driver]
BYTES = bytes(range(256))
SECOND_MS = 1_000
TOKEN = "a-token-of-a-worker-0123456789-abcdef"


def state(client: SyncClient, task_id: str) -> TaskState:
    return client.get(task_id).state


def until_state(client: SyncClient, task_id: str, wanted: TaskState) -> None:
    until(lambda: state(client, task_id) is wanted, f"the task is {wanted.name}")


# --- callers -------------------------------------------------------------------------------------------------------


def test_a_task_with_all_that_it_may_have(served: Served, driver: Driver) -> None:
    at, expires = datetime(2031, 1, 1, 9, tzinfo=UTC), datetime(2031, 1, 2, tzinfo=UTC)
    traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    made = driver.call(
        "schedule", queue="mails", payload=BYTES, at=at.isoformat(), key="welcome", labels={"to": "Ada"},
        contentType="image/png", priority=7, maxAttempts=3, expiresMs=int(expires.timestamp() * 1000),
        traceparent=traceparent,
    )  # fmt: skip
    task = served.client.get(made["id"])
    assert (made["outcome"], datetime.fromisoformat(made["fireTime"])) == ("STORED", at)
    assert (task.queue, task.payload, task.fire_time, task.key, task.labels) == (
        *("mails", BYTES, at, "welcome"),
        {"to": "Ada"},
    )
    assert (task.content_type, task.priority, task.expire_time) == ("image/png", 7, expires)
    shown = driver.call("call", method="TimerService/Get", request={"taskId": made["id"]})["task"]
    assert (shown["retry"]["maxAttempts"], task.traceparent) == (3, traceparent)


def test_a_task_after_a_delay(served: Served, driver: Driver) -> None:
    before = datetime.now(UTC)
    made = driver.call("schedule", queue="mails", payload=b"", delayMs=3_600_500)
    fires = served.client.get(made["id"]).fire_time - before
    assert timedelta(seconds=3600) < fires < timedelta(hours=2)


def test_a_repeat_with_its_request_id_is_one_task(served: Served, driver: Driver) -> None:
    def make() -> str:
        at = "2031-01-01T09:00:00Z"
        made = driver.call("schedule", queue="mails", payload=b"once", at=at, requestId="order-17")
        return str(made["id"])

    assert make() == make()
    assert len([*served.client.list(queue="mails")]) == 1


def test_a_key_in_use(served: Served, driver: Driver) -> None:
    def make(payload: bytes, **more: str) -> dict[str, str]:
        made: dict[str, str] = driver.call(
            "schedule", queue="mails", payload=payload, delayMs=60_000, key="ada", **more
        )
        return made

    first = make(b"one")
    with pytest.raises(Refused) as refused:
        make(b"two")
    assert (refused.value.code, refused.value.outcome_unknown) == ("already_exists", False)
    assert make(b"three", onConflict="keep") == {**first, "outcome": "KEPT"}
    assert make(b"four", onConflict="replace")["id"] != first["id"]
    assert served.client.get(key="ada").payload == b"four"


def test_a_cancel_is_told_truly(served: Served, driver: Driver) -> None:
    by_id = driver.call("schedule", queue="mails", payload=b"1", delayMs=60_000)["id"]
    by_key = driver.call("schedule", queue="mails", payload=b"2", delayMs=60_000, key="two")["id"]
    assert driver.call("cancel", taskId=by_id) == "CANCELLED"
    assert driver.call("cancel", taskId=by_id) == "ALREADY_CANCELLED"
    assert driver.call("cancel", key="two") == "CANCELLED"
    assert driver.call("cancel", key="three") == "NOT_FOUND"
    assert {state(served.client, by_id), state(served.client, by_key)} == {TaskState.CANCELLED}


def test_a_task_moves(served: Served, driver: Driver) -> None:
    made = driver.call("schedule", queue="mails", payload=b"1", delayMs=60_000, key="one")
    told = driver.call("reschedule", key="one", at="2031-01-01T09:00:00Z")
    assert (
        datetime.fromisoformat(told) == served.client.get(made["id"]).fire_time == datetime(2031, 1, 1, 9, tzinfo=UTC)
    )
    sooner = datetime.fromisoformat(driver.call("reschedule", taskId=made["id"], delayMs=7_200_000))
    assert sooner == served.client.get(made["id"]).fire_time
    with pytest.raises(Refused) as refused:
        driver.call("reschedule", key="nobody", delayMs=0)
    assert refused.value.code == "not_found"


def test_what_is_wrong_is_said_in_a_sentence(driver: Driver) -> None:
    with pytest.raises(Refused) as refused:
        driver.call("schedule", queue="no spaces", payload=b"")
    assert (refused.value.code, refused.value.outcome_unknown) == ("invalid_argument", False)
    assert "no spaces" in str(refused.value)
    assert refused.value.reason


def test_any_other_call(served: Served, driver: Driver) -> None:
    made = driver.call("schedule", queue="mails", payload=b"1", delayMs=60_000, key="one")
    found = driver.call("call", method="TimerService/Get", request={"key": "one"})
    assert (found["task"]["taskId"], found["task"]["state"]) == (made["id"], "TASK_STATE_PENDING")


def test_namespaces_know_nothing_of_each_other(served: Served, drive: Drive) -> None:
    here, there = drive(served.http), drive(served.http, namespace="there")
    here.call("schedule", queue="mails", payload=b"1", delayMs=60_000, key="one")
    assert there.call("cancel", key="one") == "NOT_FOUND"
    working = there.start("work", queue="mails", concurrency=1)
    there.call("schedule", queue="mails", payload=b"2")
    there.begun(b"2")
    there.call("end", payload=b"2", outcome="ack")
    there.call("stop")
    assert working.result("the worker") is None
    assert there.seen() == [(b"2", 1)]


def test_a_call_outlives_a_restart_of_the_server(served: Served, driver: Driver) -> None:
    served.server.terminate()
    call = driver.start("schedule", queue="mails", payload=b"1", at="2031-01-01T09:00:00Z")
    served.server.start()
    task_id = call.result("the call")["id"]
    assert [task.id for task in served.client.list(queue="mails")] == [task_id]


def test_nobody_answers(drive: Drive) -> None:
    nobody = drive(f"http://127.0.0.1:{free_port()}", timeoutMs=500)
    with pytest.raises(Refused) as refused:
        nobody.call("schedule", queue="mails", payload=b"1")
    assert (refused.value.code, refused.value.outcome_unknown) == ("unavailable", False)


# --- workers -------------------------------------------------------------------------------------------------------


def test_a_worker_sees_the_task_and_acknowledges_it(served: Served, driver: Driver) -> None:
    made = served.client.schedule("pictures", BYTES, delay=0, key="17", labels={"to": "Ada"}, content_type="image/png")
    driver.start("work", queue="pictures")
    seen = driver.begun(BYTES)
    assert (seen["id"], seen["queue"], seen["key"], seen["labels"]) == (made.id, "pictures", "17", {"to": "Ada"})
    assert (seen["contentType"], len(seen["deliveryId"]) > 20) == ("image/png", True)
    assert abs(datetime.fromisoformat(seen["fireTime"]) - made.fire_time) < timedelta(milliseconds=1)
    assert state(served.client, made.id) is TaskState.IN_FLIGHT
    driver.call("end", payload=BYTES, outcome="ack")
    until_state(served.client, made.id, TaskState.ACKED)


def test_a_failed_task_comes_again(served: Served, driver: Driver) -> None:
    """After a span of its handler's own, or by the retry policy."""
    task = served.client.schedule("mails", b"1", delay=0)
    driver.start("work", queue="mails")
    first = driver.begun(b"1")
    driver.call("end", payload=b"1", outcome="retry", afterMs=100, error="not yet")
    assert driver.begun(b"1", 2)["deliveryId"] == first["deliveryId"]
    assert served.client.get(task.id).last_error == "not yet"
    driver.call("end", payload=b"1", outcome="fail", error="out of luck")
    driver.begun(b"1", 3)
    assert served.client.get(task.id).last_error == "out of luck"
    driver.call("end", payload=b"1", outcome="ack")
    until_state(served.client, task.id, TaskState.ACKED)


def test_a_service_that_says_wait_uses_no_attempt_up(served: Served, driver: Driver) -> None:
    """It holds the queue, or a limit that all queues of that service list."""
    served.client.limits.put("stripe", max_in_hand=10)
    served.client.queues.put("mails", limits=["stripe"])
    task = served.client.schedule("mails", b"1", delay=0)
    driver.start("work", queue="mails")
    driver.begun(b"1")
    driver.call("end", payload=b"1", outcome="throttled", afterMs=100, error="429")
    until(lambda: driver.seen() == [(b"1", 1)] * 2, "it is the first attempt again")
    driver.call("end", payload=b"1", outcome="throttled", afterMs=3_600_000, limit="stripe", error="429")
    until_state(served.client, task.id, TaskState.PENDING)
    assert served.client.limits.get("stripe").held_until is not None
    later = served.client.schedule("mails", b"2", delay=0)
    assert state(served.client, later.id) is TaskState.PENDING
    assert driver.seen() == [(b"1", 1)] * 2


def test_a_rejected_task_is_a_dead_letter(served: Served, driver: Driver) -> None:
    task = served.client.schedule("mails", b"1", delay=0)
    driver.start("work", queue="mails")
    driver.begun(b"1")
    driver.call("end", payload=b"1", outcome="reject", error="no such address")
    until_state(served.client, task.id, TaskState.DEAD)
    [dead] = served.client.dead_letters(queue="mails")
    assert (dead.task.id, dead.last_error) == (task.id, "no such address")


def test_no_more_are_in_hand_than_it_says(served: Served, driver: Driver) -> None:
    tasks = served.client.schedule_many("mails", [(b"%d" % number, 0) for number in range(6)])
    driver.start("work", queue="mails", concurrency=2)
    ended: set[bytes] = set()
    for done in range(len(tasks)):
        in_hand = min(2, len(tasks) - done)
        until(lambda: len(driver.seen()) == done + in_hand, "both slots have a task")  # noqa: B023
        assert sum(state(served.client, task.id) is TaskState.IN_FLIGHT for task in tasks) == in_hand
        payload = next(payload for payload, _ in driver.seen() if payload not in ended)
        ended.add(payload)
        driver.call("end", payload=payload, outcome="ack")
        until(lambda: sum(state(served.client, t.id) is TaskState.ACKED for t in tasks) == len(ended), "it is acked")
    assert sorted(driver.seen()) == [(b"%d" % number, 1) for number in range(6)]


def test_a_handler_may_take_longer_than_the_lease(served: Served, driver: Driver) -> None:
    """Two tasks that are due after the lease has gone by twice tell that time has passed."""
    task = served.client.schedule("mails", b"long", delay=0)
    driver.start("work", queue="mails", leaseMs=SECOND_MS)
    driver.begun(b"long")
    served.client.schedule("mails", b"later", delay=2.5)
    driver.begun(b"later")
    assert (driver.seen(), driver.seen("lost")) == ([(b"long", 1), (b"later", 1)], [])
    driver.call("end", payload=b"long", outcome="ack")
    until_state(served.client, task.id, TaskState.ACKED)


def test_a_worker_that_is_killed_leaves_its_task_to_another(served: Served, drive: Drive) -> None:
    task = served.client.schedule("mails", b"1", delay=0)
    first = drive(served.http)
    first.start("work", queue="mails", leaseMs=SECOND_MS)
    first.begun(b"1")
    first.signal(signal.SIGKILL)
    second = drive(served.http)
    second.start("work", queue="mails", leaseMs=SECOND_MS)
    second.begun(b"1", 2)
    second.call("end", payload=b"1", outcome="ack")
    until_state(served.client, task.id, TaskState.ACKED)


def test_a_worker_that_stood_still_hears_that_it_has_lost_its_task(served: Served, drive: Drive) -> None:
    """With its one slot taken it does not wait for more: a call that waits would get the next delivery as well."""
    task = served.client.schedule("mails", b"1", delay=0)
    first, second = drive(served.http), drive(served.http)
    first.start("work", queue="mails", leaseMs=SECOND_MS, concurrency=1)
    first.begun(b"1")
    first.signal(signal.SIGSTOP)
    second.start("work", queue="mails", leaseMs=SECOND_MS)
    second.begun(b"1", 2)
    first.signal(signal.SIGCONT)
    assert first.lost(b"1")["reason"] == "lost"
    second.call("end", payload=b"1", outcome="ack")
    until_state(served.client, task.id, TaskState.ACKED)


def test_a_worker_hears_that_its_task_was_cancelled(served: Served, driver: Driver) -> None:
    """With its next sign of life. What it says after that counts: the task ends as cancelled."""
    task = served.client.schedule("mails", b"1", delay=0)
    driver.start("work", queue="mails", leaseMs=SECOND_MS)
    driver.begun(b"1")
    assert served.client.cancel(task.id, wait=60) is CancelOutcome.CANCELLED
    assert driver.lost(b"1")["reason"] == "cancelled"
    assert state(served.client, task.id) is TaskState.CANCELLED


def test_a_worker_goes_on_after_a_restart_of_the_server(served: Served, driver: Driver) -> None:
    """Also with what it has in hand."""
    held = served.client.schedule("mails", b"held", delay=0)
    driver.start("work", queue="mails", leaseMs=30 * SECOND_MS)
    driver.begun(b"held")
    served.server.kill()
    driver.call("end", payload=b"held", outcome="ack")
    served.server.start()
    until_state(served.client, held.id, TaskState.ACKED)
    after = served.client.schedule("mails", b"after", delay=0)
    driver.begun(b"after")
    driver.call("end", payload=b"after", outcome="ack")
    until_state(served.client, after.id, TaskState.ACKED)
    assert (b"held", 2) not in driver.seen()


def test_a_worker_that_stops_finishes_what_it_has(served: Served, driver: Driver) -> None:
    task = served.client.schedule("mails", b"1", delay=0)
    working = driver.start("work", queue="mails", concurrency=1)
    driver.begun(b"1")
    driver.call("stop")
    assert working.answer is None
    driver.call("end", payload=b"1", outcome="ack")
    assert working.result("the worker") is None
    assert state(served.client, task.id) is TaskState.ACKED
    left = served.client.schedule("mails", b"2", delay=0)
    again = driver.start("work", queue="mails", concurrency=1)
    driver.begun(b"2")
    assert served.client.get(left.id).attempt == 1
    driver.call("stop")
    driver.call("end", payload=b"2", outcome="ack")
    assert again.result("the worker") is None


def test_many_tasks_come_once_each(served: Served, driver: Driver) -> None:
    payloads = [b"%d" % number for number in range(300)]
    for payload in payloads:
        driver.call("end", payload=payload, outcome="ack")
    tasks = served.client.schedule_many("mails", [(payload, 0) for payload in payloads])
    driver.start("work", queue="mails", concurrency=20)
    until(lambda: all(state(served.client, task.id) is TaskState.ACKED for task in tasks), "all are acknowledged")
    assert sorted(driver.seen()) == sorted((payload, 1) for payload in payloads)


# --- pools, progress, calls ----------------------------------------------------------------------------------------


def test_several_queues_share_the_places_of_a_worker(served: Served, driver: Driver) -> None:
    payloads = [b"%d" % number for number in range(6)]
    tasks = [served.client.schedule(("pdf", "excel")[number % 2], payloads[number], delay=0) for number in range(6)]
    driver.start("work", queues=["pdf", "excel"], concurrency=2)
    ended: set[bytes] = set()
    for done in range(6):
        in_hand = min(2, 6 - done)
        until(lambda: len(driver.seen()) == done + in_hand, "both places have a task")  # noqa: B023
        assert sum(state(served.client, task.id) is TaskState.IN_FLIGHT for task in tasks) == in_hand
        payload = next(payload for payload, _ in driver.seen() if payload not in ended)
        ended.add(payload)
        driver.call("end", payload=payload, outcome="ack")
        until(lambda: sum(state(served.client, t.id) is TaskState.ACKED for t in tasks) == len(ended), "it is acked")
    assert {(driver.begun(payload)["queue"], int(payload) % 2) for payload in payloads} == {("pdf", 0), ("excel", 1)}


def test_what_was_said_of_a_failed_attempt_goes_to_the_next(served: Served, driver: Driver) -> None:
    task = served.client.schedule("exports", b"1", delay=0)
    driver.start("work", queue="exports")
    assert driver.begun(b"1")["previous"] is None
    driver.call("end", payload=b"1", outcome="progress", fraction=0.25, cursor="page 3")
    driver.call("end", payload=b"1", outcome="progress", fraction=0.5, cursor="page 7")
    driver.call("end", payload=b"1", outcome="retry", afterMs=1, error="busy")
    assert driver.begun(b"1", 2)["previous"] == [0.5, "page 7"]
    driver.call("end", payload=b"1", outcome="ack")
    until_state(served.client, task.id, TaskState.ACKED)


def test_progress_goes_with_the_signs_of_life(served: Served, driver: Driver) -> None:
    task = served.client.schedule("exports", b"1", delay=0)
    driver.start("work", queue="exports", leaseMs=SECOND_MS)
    driver.begun(b"1")
    driver.call("end", payload=b"1", outcome="progress", fraction=0.5, cursor="page 7")
    until(lambda: served.client.get(task.id).progress is not None, "the server has heard of it")
    said = served.client.get(task.id).progress
    assert said is not None
    assert (said.fraction, said.cursor) == (0.5, b"page 7")


@pytest.mark.parametrize("of", ["task", "worker"])
def test_a_handler_that_says_nothing_has_stalled(served: Served, driver: Driver, of: str) -> None:
    """Also one that does not look up: it keeps its place as long as it runs, and the next attempt begins meanwhile."""
    task = served.client.schedule("exports", b"1", delay=0, stall_timeout=1 if of == "task" else None)
    driver.start("work", queue="exports", concurrency=2, stallMs=SECOND_MS if of == "worker" else 0)
    driver.begun(b"1")
    driver.call("end", payload=b"1", outcome="progress", fraction=0.5, cursor="page 7")
    assert driver.lost(b"1")["reason"] == "stalled"
    assert driver.begun(b"1", 2)["previous"] == [0.5, "page 7"]
    assert served.client.get(task.id).last_error.startswith("Stalled: the handler said no progress for 1")
    driver.call("end", payload=b"1", outcome="deaf")
    driver.begun(b"1", 3)


def test_a_handler_that_says_something_now_and_then_goes_on(served: Served, driver: Driver) -> None:
    """For as long as it takes others to stall, and the server to miss them."""
    task = served.client.schedule("exports", b"1", delay=0, stall_timeout=3)
    driver.start("work", queue="exports", leaseMs=30 * SECOND_MS)
    driver.begun(b"1")
    silent = served.client.schedule("others", b"2", delay=0, stall_timeout=3)
    for attempt in (1, 2):
        assert [each.attempt for each in served.client.receive("others", wait=60)] == [attempt]
        until_said(driver, lambda: len(served.client.get(silent.id).history) >= attempt)  # noqa: B023
    assert (driver.seen(), driver.seen("lost")) == ([(b"1", 1)], [])
    driver.call("end", payload=b"1", outcome="ack")
    until_state(served.client, task.id, TaskState.ACKED)


def until_said(driver: Driver, fact: Callable[[], bool]) -> None:
    """Until then its handler says something, again and again."""

    def look() -> bool:
        driver.call("end", payload=b"1", outcome="progress", fraction=0.5, cursor="")
        return fact()

    until(look, "another attempt has stalled")


def test_one_customer_is_held_and_the_others_go_on(served: Served, driver: Driver) -> None:
    held = driver.call("schedule", queue="mails", payload=b"1", limitKey="acme")["id"]
    driver.start("work", queue="mails", concurrency=1)
    driver.begun(b"1")
    driver.call("end", payload=b"1", outcome="throttled", afterMs=3_600_000, byKey=True, error="429")
    until_state(served.client, held, TaskState.PENDING)
    driver.call("schedule", queue="mails", payload=b"2", limitKey="acme")
    driver.call("schedule", queue="mails", payload=b"3", limitKey="initech")
    driver.begun(b"3")
    assert driver.seen() == [(b"1", 1), (b"3", 1)]
    waiting = served.client.get(held).waiting_for
    assert waiting is not None
    assert waiting.limit_key == "acme"


def test_a_handler_learns_how_another_task_has_ended(served: Served, driver: Driver) -> None:
    """Of one that was done, and of one that was rejected; a task that no end has made says nothing."""
    made = {
        payload: driver.call("schedule", queue="imports", payload=payload, key=payload.decode(), onEnd="ends")["id"]
        for payload in (b"good", b"bad")
    }
    driver.start("work", queues=["imports", "ends"])
    assert driver.begun(b"good")["ended"] is None
    driver.begun(b"bad")
    driver.call("end", payload=b"good", outcome="ack")
    driver.call("end", payload=b"bad", outcome="reject", error="no such file")
    told: list[dict[str, Any]] = []

    def both() -> bool:
        told[:] = [each["ended"] for each in driver.events if each["event"] == "begun" and each["queue"] == "ends"]
        return len(told) == len(made)

    until(both, "both ends are told")
    good, bad = sorted(told, key=lambda each: str(each["outcome"]))
    for ended, payload, outcome in ((good, b"good", "ACKED"), (bad, b"bad", "DEAD")):
        assert (ended["id"], ended["queue"], ended["key"]) == (made[payload], "imports", payload.decode())
        assert (ended["outcome"], ended["attempt"], ended["labels"]) == (outcome, 1, {})
        assert ended["deliveryId"] == driver.begun(payload)["deliveryId"]
        task = served.client.get(made[payload])
        assert abs(datetime.fromisoformat(ended["fireTime"]) - task.fire_time) < timedelta(milliseconds=1)
        assert datetime.fromisoformat(ended["endTime"]) >= datetime.fromisoformat(ended["fireTime"])
    assert (good["lastError"], bad["lastError"]) == ("", "no such file")


def test_who_asks_has_what_the_handler_returns(served: Served, drive: Drive) -> None:
    caller, worker = drive(served.http), drive(served.http)
    asking = caller.start("ask", queue="pdf", payload=b"page", timeoutMs=60_000)
    worker.start("work", queue="pdf")
    worker.begun(b"page")
    assert asking.answer is None
    worker.call("end", payload=b"page", outcome="ack", result="a text")
    assert asking.result("the call") == {"result": "a text"}
    again = caller.start("ask", queue="pdf", payload=b"none", timeoutMs=60_000)
    worker.begun(b"none")
    worker.call("end", payload=b"none", outcome="ack")
    assert again.result("the call") == {"result": ""}


def test_who_asks_hears_why_there_is_no_answer(served: Served, drive: Drive) -> None:
    caller, worker = drive(served.http), drive(served.http)
    late = caller.call("ask", queue="nobody", payload=b"page", timeoutMs=300)
    assert late["state"] in ("EXPIRED", "PENDING")
    asking = caller.start("ask", queue="pdf", payload=b"page", timeoutMs=60_000)
    worker.start("work", queue="pdf")
    worker.begun(b"page")
    worker.call("end", payload=b"page", outcome="reject", error="no page")
    said = asking.result("the call")
    assert (said["state"], said["lastError"]) == ("DEAD", "no page")


def test_who_no_longer_asks_cancels_the_task(served: Served, driver: Driver) -> None:
    asking = driver.start("ask", queue="nobody", payload=b"page", timeoutMs=3_600_000)
    until(lambda: [*served.client.list(queue="nobody")] != [], "it is stored")
    [task] = served.client.list(queue="nobody")
    driver.call("stop")
    with pytest.raises(Refused):
        asking.result("the call")
    until_state(served.client, task.id, TaskState.CANCELLED)


# --- who may -------------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path: Path, children: Children) -> tuple[str, Path]:
    """The address of a server with TLS and roles, and the certificate of its authority."""
    authority, port = Authority(tmp_path), free_port()
    pair = authority.sign("server", "DNS:localhost", "IP:127.0.0.1")
    principals = tmp_path / "principals"
    principals.write_text(f"mails work,schedule {proof(TOKEN)}\n")
    tls = ("--tls-cert", str(pair.certificate), "--tls-key", str(pair.key))
    server = children.own(
        Server(tmp_path, "--http", f"0.0.0.0:{port}", *tls, "--set", f"auth.principals_file={principals}")
    )
    server.start()
    return f"https://127.0.0.1:{port}", authority.certificate


def test_a_token_over_tls(guarded: tuple[str, Path], drive: Drive) -> None:
    address, ca = guarded
    known = drive(address, token=TOKEN, ca=str(ca))
    known.start("work", queue="mails")
    known.call("schedule", queue="mails", payload=b"1")
    known.begun(b"1")
    stranger = drive(address, token="another", ca=str(ca))
    with pytest.raises(Refused) as refused:
        stranger.call("schedule", queue="mails", payload=b"1")
    assert (refused.value.code, refused.value.outcome_unknown) == ("unauthenticated", False)
    with pytest.raises(Refused) as hopeless:
        stranger.call("work", queue="mails")
    assert hopeless.value.code == "unauthenticated"


def test_a_server_that_nobody_vouches_for_is_told_nothing(guarded: tuple[str, Path], drive: Drive) -> None:
    address, _ = guarded
    with pytest.raises(Refused, match="certificate"):
        drive(address, token=TOKEN, timeoutMs=500).call("schedule", queue="mails", payload=b"1")
