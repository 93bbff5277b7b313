"""What a task may have beside its payload and its time, in the clients of all languages: it arrives, what is wrong is
said before anything is sent, and a server that does not know it refuses it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.clients.conftest import Served
from tests.clients.driver import Driver, Refused
from tests.clients.older_server import released, taking
from tests.process.waiting import until
from timerd.client import TaskState
from timerd.demo.processes import free_port
from timerd.v1 import task_pb2, timer_service_pb2

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
Drive = Callable[..., Driver]
SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
RETRY = {
    "maxAttempts": 3, "initialBackoffMs": 2 * SECOND_MS, "multiplier": 1.5, "maxBackoffMs": MINUTE_MS, "jitter": 0.5,
    "attemptTimeoutMs": HOUR_MS,
}  # fmt: skip
EXPIRES, SOFT_EXPIRES = datetime(2031, 1, 2, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)
EVERYTHING: dict[str, Any] = {
    "queue": "mails", "delayMs": HOUR_MS, "key": "ada", "onConflict": "keep", "labels": {"to": "Ada"},
    "contentType": "image/png", "traceparent": TRACEPARENT, "priority": 7, "onDemand": True, "orderingKey": "ada",
    "limitKey": "acme", "expiresMs": int(EXPIRES.timestamp() * 1000), "expireAfterMs": 30 * SECOND_MS,
    "softExpiresMs": int(SOFT_EXPIRES.timestamp() * 1000), "softExpireAfterMs": 10 * SECOND_MS,
    "stallMs": 5 * SECOND_MS, "keepResultMs": MINUTE_MS, "onEnd": "ends", **RETRY,
}  # fmt: skip


def given(message: Any) -> set[str]:  # noqa: ANN401 - of either descriptor pool
    return {field.name for field, _ in message.ListFields()}


def test_the_clients_have_all_that_a_task_may_have(drive: Drive) -> None:
    """A field that a later release adds is missed here."""
    with taking(timer_service_pb2.ScheduleRequest) as server:
        drive(server.address).call("schedule", payload=b"1", **EVERYTHING)
    [request] = server.requests
    template = request.template  # type: ignore[attr-defined]
    assert given(template) == set(task_pb2.TaskTemplate.DESCRIPTOR.fields_by_name)
    assert given(template.retry) == set(task_pb2.RetryPolicy.DESCRIPTOR.fields_by_name)
    spans = ("expire_after", "soft_expire_after", "stall_timeout", "keep_result")
    assert [getattr(template, name).ToMilliseconds() for name in spans] == [30_000, 10_000, 5_000, 60_000]
    retry, waits = template.retry, ("initial_backoff", "max_backoff", "attempt_timeout")
    assert [getattr(retry, name).ToMilliseconds() for name in waits] == [2_000, 60_000, 3_600_000]
    assert (retry.max_attempts, retry.multiplier, retry.jitter) == (3, 1.5, 0.5)
    assert template.expire_time.ToDatetime(UTC) == EXPIRES
    assert template.soft_expire_time.ToDatetime(UTC) == SOFT_EXPIRES


def test_no_jitter_is_not_the_jitter_of_the_server(drive: Drive) -> None:
    with taking(timer_service_pb2.ScheduleRequest) as server:
        drive(server.address).call("schedule", queue="mails", payload=b"1", jitter=0)
    [request] = server.requests
    assert request.template.retry.jitter < 0  # type: ignore[attr-defined]


def test_what_is_not_said_is_not_sent(drive: Drive) -> None:
    """An older server would refuse it."""
    with taking(released("ScheduleRequest")) as server:
        drive(server.address).call("schedule", queue="mails", payload=b"1", onDemand=False)
    [request] = server.requests
    assert given(request.template) - {"retry"} == {"queue"}  # type: ignore[attr-defined]
    assert given(request.template.retry) == set()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ({"onDemand": True, "expireAfterMs": MINUTE_MS}, "onDemand|expireAfter"),
        ({"expireAfterMs": MINUTE_MS}, "expireAfter"),
        ({"softExpireAfterMs": MINUTE_MS}, "softExpireAfter"),
        ({"keepResultMs": MINUTE_MS}, "keepResult"),
    ],
)
def test_an_older_server_refuses_what_it_would_not_do(drive: Drive, option: dict[str, Any], field: str) -> None:
    with taking(released("ScheduleRequest")) as server, pytest.raises(Refused, match=field) as refused:
        drive(server.address).call("schedule", queue="mails", payload=b"1", **option)
    assert (refused.value.code, refused.value.outcome_unknown) == ("invalid_argument", False)
    assert server.requests == []


WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"onDemand": True, "expireAfterMs": 10 * MINUTE_MS + 1},
        "a task on demand .* for 10 minutes at most: give an expireAfter",
    ),
    ({"expireAfterMs": -1}, "(expireAfter|timeout)(Ms)? is -1(ms)?: give .*more than 0"),
    ({"softExpireAfterMs": -1}, "softExpireAfter(Ms)? is -1"),
    ({"stallMs": -1}, "stallTimeout(Ms)? is -1"),
    ({"keepResultMs": -1}, "keepResult(Ms)? is -1"),
    ({"initialBackoffMs": -1}, "initialBackoff(Ms)? is -1"),
    ({"maxBackoffMs": -1}, "maxBackoff(Ms)? is -1"),
    ({"attemptTimeoutMs": -1}, "attemptTimeout(Ms)? is -1"),
    ({"priority": 11}, "priority is 11: give .*0 to 10"),
    ({"priority": -1}, "priority is -1"),
    ({"maxAttempts": -1}, "maxAttempts is -1"),
    ({"multiplier": 0.5}, "multiplier is 0.5: give 1 to 100"),
    ({"multiplier": 101}, "multiplier is 101"),
    ({"jitter": 1.5}, "jitter is 1.5"),
]


@pytest.mark.parametrize("call", ["schedule", "ask"])
def test_what_is_wrong_is_said_before_anything_is_sent(drive: Drive, call: str) -> None:
    """Nobody listens there. The end of a task that is asked for is its timeout."""
    nobody = drive(f"http://127.0.0.1:{free_port()}", timeoutMs=500)
    wrong = [*WRONG, ({"onDemand": True}, "a task on demand"), ({"delayMs": -1}, "delay(Ms)? is -1")]
    for option, sentence in wrong if call == "schedule" else WRONG:
        asked = {"timeoutMs" if call == "ask" and name == "expireAfterMs" else name: option[name] for name in option}
        with pytest.raises(Refused, match=f"(?i){sentence}") as refused:
            nobody.call(call, queue="mails", payload=b"1", **asked)
        said = (refused.value.code, refused.value.reason, refused.value.outcome_unknown)
        assert said == ("invalid_argument", "INVALID", False)


def test_a_task_on_demand_goes_before_what_waits_in_line(served: Served, driver: Driver) -> None:
    in_line = [driver.call("schedule", queue="pages", payload=b"%d" % number)["id"] for number in range(3)]
    asked = driver.call(
        "schedule", queue="pages", payload=b"page 17", onDemand=True, expireAfterMs=10 * MINUTE_MS
    )["id"]  # fmt: skip
    task = served.client.get(asked)
    assert (task.on_demand, task.expire_time) == (True, task.fire_time + timedelta(minutes=10))
    assert not any(served.client.get(each).on_demand for each in in_line)
    driver.start("work", queue="pages", concurrency=1)
    until(lambda: driver.seen() != [], "one is worked on")
    assert driver.seen() == [(b"page 17", 1)]


def test_who_asks_is_on_demand_and_may_say_more(served: Served, driver: Driver) -> None:
    driver.start(
        "ask",
        queue="nobody",
        payload=b"page",
        timeoutMs=5 * MINUTE_MS,
        priority=3,
        limitKey="acme",
        keepResultMs=HOUR_MS,
    )
    until(lambda: [*served.client.list(queue="nobody")] != [], "it is stored")
    [task] = served.client.list(queue="nobody")
    assert (task.on_demand, task.priority, task.limit_key, task.keep_result) == (True, 3, "acme", timedelta(hours=1))
    assert task.expire_time == task.fire_time + timedelta(minutes=5)


def test_a_handler_sees_until_when_its_work_is_worth_something(served: Served, driver: Driver) -> None:
    made = driver.call(
        "schedule", queue="pages", payload=b"1", expireAfterMs=HOUR_MS, softExpireAfterMs=MINUTE_MS, priority=3
    )  # fmt: skip
    driver.start("work", queue="pages")
    seen, fires = driver.begun(b"1"), datetime.fromisoformat(made["fireTime"])
    assert datetime.fromisoformat(seen["deadline"]) == fires + timedelta(hours=1)
    assert datetime.fromisoformat(seen["softDeadline"]) == fires + timedelta(minutes=1)
    assert seen["priority"] == 3
    driver.call("schedule", queue="pages", payload=b"2")
    plain = driver.begun(b"2")
    assert (plain.get("deadline"), plain.get("softDeadline")) == (None, None)


def test_a_handler_hears_when_its_task_has_expired(served: Served, driver: Driver) -> None:
    """Long before the next sign of life is due."""
    made = driver.call("schedule", queue="pages", payload=b"1", expireAfterMs=2 * SECOND_MS)
    driver.start("work", queue="pages", leaseMs=HOUR_MS)
    driver.begun(b"1")
    assert driver.lost(b"1")["reason"] == "expired"
    until(lambda: served.client.get(made["id"]).state is TaskState.EXPIRED, "it is expired")


def test_a_handler_hears_when_its_attempt_has_taken_too_long(served: Served, driver: Driver) -> None:
    """The next one has begun meanwhile."""
    driver.call("schedule", queue="pages", payload=b"1", attemptTimeoutMs=SECOND_MS, initialBackoffMs=1)
    driver.start("work", queue="pages", leaseMs=HOUR_MS)
    driver.begun(b"1")
    assert driver.lost(b"1")["reason"] == "lost"
    driver.begun(b"1", 2)


# --- a task as it is stored ----------------------------------------------------------------------------------------


def test_a_stored_task_is_shown(served: Served, driver: Driver) -> None:
    made = driver.call("schedule", payload=b"1", **EVERYTHING)
    by_id, by_key = driver.call("get", taskId=made["id"]), driver.call("get", key="ada")
    assert by_id == by_key
    task = served.client.get(made["id"])
    same = ("id", "namespace", "queue", "key", "labels", "priority", "attempt", "traceparent")
    assert {name: by_id[name] for name in same} == {name: getattr(task, name) for name in same}
    assert (by_id["state"], by_id["isOver"], by_id["contentType"]) == ("PENDING", False, "image/png")
    assert (by_id["orderingKey"], by_id["limitKey"], by_id["onEnd"]) == ("ada", "acme", "ends")
    assert (by_id["onDemand"], by_id["isCancelling"], by_id["lastError"]) == (True, False, "")
    instants = {"fireTime": task.fire_time, "dueTime": task.due_time, "expireTime": task.expire_time}
    assert {name: datetime.fromisoformat(by_id[name]) for name in instants} == instants
    assert datetime.fromisoformat(by_id["softExpireTime"]) == task.soft_expire_time
    with pytest.raises(Refused) as refused:
        driver.call("get", key="nobody")
    assert refused.value.code == "not_found"


def test_the_end_of_a_task_is_waited_for(served: Served, drive: Drive) -> None:
    """With what its handler has returned, as long as that is kept."""
    caller, worker = drive(served.http), drive(served.http)
    made = caller.call("schedule", queue="sums", payload=b"1 2", key="sum", keepResultMs=HOUR_MS)
    early = caller.call("wait", key="sum", timeoutMs=100)
    assert (early["id"], early["state"], early["isOver"], early.get("result")) == (made["id"], "PENDING", False, None)
    waiting = caller.start("wait", taskId=made["id"])
    worker.start("work", queue="sums")
    worker.begun(b"1 2")
    assert waiting.answer is None
    worker.call("end", payload=b"1 2", outcome="ack", result="3")
    ended = waiting.result("the wait")
    assert (ended["state"], ended["isOver"], ended["result"]) == ("ACKED", True, "3")


def test_a_task_whose_result_is_not_kept_has_none(served: Served, driver: Driver) -> None:
    made = driver.call("schedule", queue="sums", payload=b"1 2")
    driver.start("work", queue="sums")
    driver.begun(b"1 2")
    driver.call("end", payload=b"1 2", outcome="ack", result="3")
    ended = driver.call("wait", taskId=made["id"])
    assert (ended["state"], ended.get("result")) == ("ACKED", None)


def test_a_dead_task_tells_why(served: Served, driver: Driver) -> None:
    made = driver.call("schedule", queue="sums", payload=b"1", maxAttempts=2, initialBackoffMs=1, jitter=0)
    driver.start("work", queue="sums")
    for attempt in (1, 2):
        driver.begun(b"1", attempt)
        driver.call("end", payload=b"1", outcome="progress", fraction=0.5, cursor="page 7")
        driver.call("end", payload=b"1", outcome="fail", error="no such number")
    ended = driver.call("wait", taskId=made["id"])
    assert (ended["state"], ended["lastError"], ended["attempt"]) == ("DEAD", "no such number", 2)
    assert ended["progress"] == [0.5, "page 7"]
