"""Each command against a server that answers from a script: JSON is complete and alone, tables show the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from tests.cli.conftest import Terminal
from tests.sdk.fake_server import FakeServer
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb

NINE = Timestamp(seconds=1_893_488_400)  # 2030-01-01T09:00:00Z


def task(task_id: str = "A1", payload: bytes = b"hello") -> task_pb2.Task:
    return task_pb2.Task(
        task_id=task_id,
        namespace="default",
        queue="mails",
        fire_time=NINE,
        due_time=Timestamp(seconds=NINE.seconds + 7),
        state=task_pb2.TASK_STATE_PENDING,
        payload=payload,
        labels={"to": "ada"},
        priority=3,
        key="k1",
    )


def test_help_loads_neither_grpc_nor_the_server() -> None:
    program = (
        "import sys; from timerd.cli import run; run(['--help']); "
        "print([name for name in ('grpc', 'google', 'numpy', 'sqlite3', 'timerd.client', 'timerd.demo.run') "
        "if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "schedule" in done.stdout


def test_version(terminal: Terminal) -> None:
    assert terminal("version", "--json").json["version"] == "0.1.0"
    assert terminal("--version").out.startswith("timerd 0.1.0")


@pytest.mark.parametrize("scheme", ["", "dns:", "dns:///"])
def test_the_server_may_be_a_name_as_grpc_writes_it(terminal: Terminal, server: FakeServer, scheme: str) -> None:
    target = f"{scheme}localhost:{server.target.rpartition(':')[2]}"
    assert terminal("schedule", "mails", "hello", "--in", "1h", "--server", target).code == 0


def test_schedule_answers_with_id_and_time(terminal: Terminal, server: FakeServer) -> None:
    ran = terminal("schedule", "mails", "hello", "--at", "2030-01-01T10:00+01:00", "--label", "to=ada", "--json")
    assert ran.code == 0
    assert ran.json["fire_time"] == "2030-01-01T09:00:00.000Z"
    assert ran.json["outcome"] == "STORED"
    assert len(ran.json["task_id"]) > 40
    sent = server.timers.requests()[0].schedule
    assert (sent.template.queue, dict(sent.template.labels)) == ("mails", {"to": "ada"})
    assert server.timers.payloads == [b"hello"]


def test_schedule_passes_on_what_it_is_told(terminal: Terminal, server: FakeServer) -> None:
    ran = terminal(
        "schedule", "mails", "hello", "--at", "2030-01-01T09:00Z", "--key", "k1", "--on-conflict", "keep",
        "--priority", "4", "--expire-in", "1m", "--max-attempts", "7", "--backoff", "2s", "--attempt-timeout", "5m",
        "--namespace", "blue", "--soft-expire-in", "30s",
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    assert "is due in" in ran.out
    sent = server.timers.requests()[0].schedule
    template = sent.template
    assert (sent.namespace, sent.items.items[0].key, template.priority) == ("blue", "k1", 4)
    assert template.on_conflict == task_pb2.CONFLICT_POLICY_KEEP
    assert (template.expire_after.seconds, template.soft_expire_after.seconds) == (60, 30)
    assert (template.retry.max_attempts, template.retry.initial_backoff.seconds) == (7, 2)
    assert template.retry.attempt_timeout.seconds == 300


@pytest.mark.parametrize("expire", [[], ["--expire-in", "11m"]])
def test_a_task_on_demand_needs_an_end(terminal: Terminal, server: FakeServer, expire: list[str]) -> None:
    """It is said by the name of the option, and the server is not asked."""
    ran = terminal("schedule", "mails", "x", "--in", "1s", "--on-demand", *expire)
    assert (ran.code, server.timers.unary) == (2, [])
    assert "10 minutes at most: add --expire-in, up to 10m." in ran.err


def test_schedule_takes_a_file_with_a_payload_a_line(terminal: Terminal, server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "many").write_text("".join(f"number {index}\n" for index in range(2500)))
    ran = terminal("schedule", "mails", "--file", str(tmp_path / "many"), "--in", "2h30m")
    assert (ran.code, ran.out, ran.err) == (0, "Scheduled 2,500 tasks on mails.\n", "")
    assert sorted(server.timers.payloads) == sorted(b"number %d" % index for index in range(2500))


def test_a_file_that_is_partly_refused_says_so(terminal: Terminal, server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "many").write_text("good\nbad\n")
    problem = task_pb2.Problem(code=3, message="The payload is bad.", reason="INVALID", field="payload")
    server.timers.item_results = {1: pb.ItemResult(outcome=task_pb2.ITEM_OUTCOME_NOT_STORED, problem=problem)}
    ran = terminal("schedule", "mails", "--file", str(tmp_path / "many"), "--in", "5m", "--json")
    assert ran.code == 2
    assert [line["outcome"] for line in ran.lines] == ["STORED", "NOT_STORED"]
    assert "1 of 2 tasks were stored" in ran.err
    assert f"{tmp_path / 'many'}, line 2: The payload is bad." in ran.err


def test_cancel_tells_each_outcome_and_fails_where_one_may_arrive(terminal: Terminal, server: FakeServer) -> None:
    assert terminal("cancel", "A1", "A2", "--json").code == 0
    ran = terminal("cancel", "A1", "B2", "--json")
    assert ran.code == 1
    assert [line["outcome"] for line in ran.lines] == ["CANCELLED", "NOT_FOUND"]
    assert "1 of 2 were not cancelled" in ran.err


def test_cancel_by_key(terminal: Terminal, server: FakeServer) -> None:
    server.timers.unary_answers["Cancel"].append(pb.CancelResponse(outcome=task_pb2.CANCEL_OUTCOME_IN_FLIGHT))
    ran = terminal("cancel", "--key", "k1")
    assert ran.code == 1
    assert "a worker has it in hand" in ran.out


def test_cancel_waits_for_what_a_worker_has(terminal: Terminal, server: FakeServer) -> None:
    server.timers.unary_answers["Cancel"] += [pb.CancelResponse(outcome=task_pb2.CANCEL_OUTCOME_CANCELLED)] * 2
    ran = terminal("cancel", "A1", "A2", "--wait", "30s", "--json")
    assert (ran.code, [line["outcome"] for line in ran.lines]) == (0, ["CANCELLED"] * 2)
    asked = [pb.CancelRequest.FromString(data) for method, data in server.timers.unary if method == "Cancel"]
    assert {each.task_id for each in asked} == {"A1", "A2"}
    assert all(0 < each.wait.ToMilliseconds() <= 30_000 for each in asked)
    long = terminal("cancel", "A1", "--wait", "11m")
    assert (long.code, "give 10m at most" in long.err) == (2, True)


def test_reschedule_and_fire_now(terminal: Terminal, server: FakeServer) -> None:
    ran = terminal("reschedule", "A1", "--at", "2030-01-01T09:00Z", "--json")
    assert ran.json == {"task_id": "A1", "fire_time": "2030-01-01T09:00:00.000Z"}
    server.timers.unary_answers["FireNow"].append(pb.FireNowResponse(task_id="A1", fire_time=NINE))
    assert terminal("fire-now", "A1").out.startswith("A1 fires at ")


def test_get_shows_every_field(terminal: Terminal, server: FakeServer) -> None:
    server.timers.unary_answers["Get"].extend([pb.GetResponse(task=task())] * 2)
    record = terminal("get", "A1", "--json").json
    assert (record["task_id"], record["state"], record["payload"]) == ("A1", "PENDING", "hello")
    assert (record["labels"], record["priority"], record["fire_at_ms"]) == ({"to": "ada"}, 3, NINE.seconds * 1000)
    assert (record["due_time"], record["due_at_ms"]) == ("2030-01-01T09:00:07.000Z", NINE.seconds * 1000 + 7000)
    shown = terminal("get", "--key", "k1").out
    assert "to=ada" in shown
    assert "PENDING" in shown


@pytest.mark.parametrize(
    ("state", "code", "says"),
    [
        (task_pb2.TASK_STATE_ACKED, 0, ""),
        (task_pb2.TASK_STATE_DEAD, 1, "No worker has acknowledged the task: it is DEAD."),
        (task_pb2.TASK_STATE_PENDING, 1, "The task has not ended within 10ms: it is PENDING."),
    ],
)
def test_wait_shows_the_task_and_says_by_its_exit_code_whether_it_was_acknowledged(
    terminal: Terminal, server: FakeServer, state: task_pb2.TaskState, code: int, says: str
) -> None:
    shown = task()
    shown.state = state
    server.timers.unary_answers["Wait"].extend(
        [pb.WaitResponse(task=shown, has_ended=code == 0 or "DEAD" in says)] * 999
    )
    ran = terminal("wait", "A1", "--for", "10ms", "--json")
    assert (ran.code, ran.json["task_id"]) == (code, "A1")
    assert says in ran.err


def test_get_shows_the_result(terminal: Terminal, server: FakeServer) -> None:
    shown = task()
    shown.result.value, shown.result.content_type = b"[3]", "application/json"
    server.timers.unary_answers["Get"].extend([pb.GetResponse(task=shown)] * 2)
    record = terminal("get", "A1", "--json").json
    assert (record["result"], record["result_content_type"]) == ("[3]", "application/json")
    assert "[3]" in terminal("get", "A1").out


def test_get_shows_the_attempts_that_failed(terminal: Terminal, server: FakeServer) -> None:
    end = task_pb2.ATTEMPT_END_WORKER_LOST
    attempt = task_pb2.Attempt(attempt=2, end_time=NINE, end=end, error="its stream broke", worker="host 7")
    shown = task()
    shown.history.append(attempt)
    server.timers.unary_answers["Get"].extend([pb.GetResponse(task=shown)] * 2)
    [record] = terminal("get", "A1", "--json").json["history"]
    assert (record["attempt"], record["end"], record["send_time"]) == (2, "WORKER_LOST", None)
    assert "2: WORKER_LOST at 2030-01-01T09:00:00.000Z (host 7): its stream broke" in " ".join(
        terminal("get", "A1").out.split()
    )


def test_a_payload_that_is_no_text_is_shown_as_base64(terminal: Terminal, server: FakeServer) -> None:
    server.timers.unary_answers["Get"].extend([pb.GetResponse(task=task(payload=b"\xff\x00"))] * 2)
    assert terminal("get", "A1", "--json").json["payload_base64"] == "/wA="
    assert "base64 /wA=" in terminal("get", "A1").out


def test_a_task_that_is_not_there_is_exit_code_1(terminal: Terminal, server: FakeServer) -> None:
    refusal = (grpc.StatusCode.NOT_FOUND, "There is no task A9.", (("timerd-reason", "NOT_FOUND"),))
    server.timers.unary_answers["Get"].append(refusal)
    ran = terminal("get", "A9", "--json")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("timerd: 'A9' is too short to be a part of an id: give 4 characters")


def test_list_goes_through_the_pages_up_to_its_limit(terminal: Terminal, server: FakeServer) -> None:
    pages = [
        pb.ListResponse(tasks=[task("A1"), task("A2")], next_page_token="more"),
        pb.ListResponse(next_page_token="more"),
        pb.ListResponse(tasks=[task("A3"), task("A4")], next_page_token="more"),
    ]
    server.timers.unary_answers["List"].extend(pages)
    ran = terminal(
        "list", "--queue", "mails", "--limit", "3", "--state", "dead", "--from", "now", "--to", "2h", "--json"
    )
    assert [line["task_id"] for line in ran.lines] == ["A1", "A2", "A3"]
    sent = pb.ListRequest.FromString(server.timers.unary[0][1])
    assert sent.filter.states == [task_pb2.TASK_STATE_DEAD]
    assert sent.filter.end_time.seconds - sent.filter.start_time.seconds in (7200, 7201)


@pytest.mark.parametrize("arguments", [("list",), ("purge", "--queue", "mails"), ("count", "--to", "1h")])
def test_what_is_not_said_of_a_range_is_wide(
    terminal: Terminal, server: FakeServer, arguments: tuple[str, ...]
) -> None:
    for name, answer in (("List", pb.ListResponse()), ("Purge", pb.PurgeResponse()), ("Count", pb.CountResponse())):
        server.timers.unary_answers[name].append(answer)
    assert terminal(*arguments).code == 0
    method, data = server.timers.unary[0]
    if method == "List":
        sent = pb.ListRequest.FromString(data).filter
    else:
        sent = (pb.PurgeRequest if method == "Purge" else pb.CountRequest).FromString(data).filter
    assert sent.HasField("start_time")
    assert sent.start_time.seconds == 0
    assert sent.end_time.seconds > 0


def test_list_as_a_table(terminal: Terminal, server: FakeServer) -> None:
    server.timers.unary_answers["List"].append(pb.ListResponse(tasks=[task("A" * 59)]))
    assert "A" * 59 in terminal("list").out
    server.timers.unary_answers["List"].append(pb.ListResponse(tasks=[task()]))
    ran = terminal("list", "-o", "wide")
    assert "due" in ran.out
    assert ":07.000" in ran.out
    assert "to=ada" in ran.out
    server.timers.unary_answers["List"].append(pb.ListResponse())
    assert terminal("list").out == "No such tasks.\n"


def test_count_says_when_it_estimates(terminal: Terminal, server: FakeServer) -> None:
    answers = server.timers.unary_answers["Count"]
    answers.append(pb.CountResponse(count=1500, estimated=True))
    assert terminal("count").out.startswith("about 1,500 (an estimate")
    answers.extend([pb.CountResponse(count=2, next_page_token="more"), pb.CountResponse(count=3)])
    assert terminal("count", "--from", "now", "--json").json == {"count": 5, "estimated": False}


def test_purge_is_a_dry_run_unless_forced(terminal: Terminal, server: FakeServer) -> None:
    answers = server.timers.unary_answers["Purge"]
    answers.append(pb.PurgeResponse(purged=7, dry_run=True))
    assert "7 tasks would be removed. Nothing was" in terminal("purge", "--queue", "mails").out
    answers.append(pb.PurgeResponse(purged=7))
    assert terminal("purge", "--all", "--force", "--json").json == {"purged": 7, "dry_run": False, "in_hand": 0}
    assert [pb.PurgeRequest.FromString(data).force for _, data in server.timers.unary] == [False, True]


def test_dead_letters_and_redrive(terminal: Terminal, server: FakeServer) -> None:
    letter = pb.DeadLetter(task=task(), death_time=NINE, attempts=20, last_error="Trace\n  at x\nKeyError: 'ada'")
    server.timers.unary_answers["ListDeadLetters"].extend([pb.ListDeadLettersResponse(dead_letters=[letter])] * 2)
    record = terminal("dead-letters", "--json").json
    assert (record["attempts"], record["last_error"], record["payload"]) == (20, letter.last_error, "hello")
    shown = terminal("dead-letters").out
    assert "KeyError: 'ada'" in shown
    assert "at x" not in shown
    server.timers.unary_answers["Redrive"].append(pb.RedriveResponse(redriven=3))
    assert terminal("redrive", "--queue", "mails").out == "3 tasks live again.\n"


def test_dead_letters_are_counted_and_then_removed(terminal: Terminal, server: FakeServer) -> None:
    answers = server.timers.unary_answers["PurgeDeadLetters"]
    answers += [
        pb.PurgeDeadLettersResponse(purged=500, dry_run=True, next_page_token="more"),
        pb.PurgeDeadLettersResponse(purged=3, halting=1, dry_run=True),
        pb.PurgeDeadLettersResponse(purged=503),
    ]
    said = terminal("purge-dead", "--queue", "mails").out
    assert said.startswith("503 dead letters would be removed. Nothing was: add --force to remove them.")
    assert "1 dead letter stays, because ordering keys stand still (timerd keys)." in said
    done = terminal("purge-dead", "--queue", "mails", "--force", "--json").json
    assert done == {"purged": 503, "staying": 0, "dry_run": False}
    answers.append(pb.PurgeDeadLettersResponse(dry_run=True))
    assert terminal("purge-dead", "--queue", "mails").out == "There are none to remove.\n"


def test_redrive_of_what_is_no_dead_letter_fails(terminal: Terminal, server: FakeServer) -> None:
    problem = task_pb2.Problem(code=5, message="No dead letter.", reason="NOT_A_DEAD_LETTER")
    results = [
        pb.ItemResult(index=0, outcome=task_pb2.ITEM_OUTCOME_STORED, task_id="A1"),
        pb.ItemResult(index=1, outcome=task_pb2.ITEM_OUTCOME_NOT_STORED, problem=problem),
    ]
    server.timers.unary_answers["Redrive"].append(pb.RedriveResponse(redriven=1, results=results))
    ran = terminal("redrive", "A1", "nonsense")
    assert (ran.code, ran.out) == (1, "1 task lives again.\n")
    assert "1 of 2 are no dead letters of this namespace, as 'nonsense'" in ran.err


@pytest.mark.parametrize("lost", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED])
def test_a_server_that_does_not_answer_in_time_is_exit_code_3(
    terminal: Terminal, server: FakeServer, lost: grpc.StatusCode
) -> None:
    server.timers.unary_answers["Get"].extend([(lost, "gone", ())] * 20)
    ran = terminal("get", "A1", "--timeout", "200ms")
    assert ran.code == 3
    assert server.target in ran.err


def test_a_dead_letter_of_a_handler_that_hung_says_so(terminal: Terminal, server: FakeServer) -> None:
    stack = 'TimeoutError: hang had not ended after 1 s. It was at:\n  File "a.py", line 3, in hang\n    sleep(60)\n'
    letter = pb.DeadLetter(task=task(), death_time=NINE, last_error=stack)
    server.timers.unary_answers["ListDeadLetters"].append(pb.ListDeadLettersResponse(dead_letters=[letter]))
    assert "TimeoutError: hang" in terminal("dead-letters", "-o", "wide").out
