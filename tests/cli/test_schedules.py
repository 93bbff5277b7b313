"""`timerd schedules` against a whole server in a thread of its own."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest

from tests.cli.conftest import Terminal
from timerd.testing import Server
from timerd.v1.schedule_service_pb2 import GetScheduleRequest, GetScheduleResponse
from timerd.v1.schedule_service_pb2_grpc import ScheduleServiceStub
from timerd.v1.task_pb2 import TaskTemplate

DAILY = ("--queue", "mails", "--cron", "0 9 * * *", "--zone", "Europe/Berlin")


def test_a_schedule_from_its_creation_to_its_end(terminal: Terminal, whole: Server) -> None:
    made = terminal("schedules", "create", "report", *DAILY, "--payload", "go", "--label", "team=a", "--json").json
    assert (made["state"], made["next"], made["payload"]) == ("ACTIVE", "2030-01-01T08:00:00.000Z", "go")
    assert made["when"] == "cron 0 9 * * * (Europe/Berlin)"
    assert "report: next at" in terminal("schedules", "create", "report", *DAILY, "--update").out
    again = terminal("schedules", "create", "report", *DAILY)
    assert again.code == 1
    assert "There is a schedule 'report' already" in again.err
    [listed] = terminal("schedules", "list", "--zone", "Europe/Berlin", "--json").lines
    assert listed["schedule_id"] == "report"
    assert "report" in terminal("schedules", "list").out
    assert len(terminal("schedules", "show", "report", "--json").json["upcoming"]) == 10
    paused = terminal(
        "schedules", "pause", "report", "--note", "a move", "--until", "2030-02-01T00:00:00Z", "--json"
    ).json
    assert (paused["state"], paused["note"], paused["pause_until"]) == ("PAUSED", "a move", "2030-02-01T00:00:00.000Z")
    assert terminal("schedules", "list", "--state", "active").out.strip() == "No schedules."
    assert "a move" in terminal("schedules", "show", "report").out
    assert terminal("schedules", "resume", "report", "--json").json["state"] == "ACTIVE"
    updated = terminal("schedules", "update", "report", "--every", "1h", "--json").json
    assert updated["when"] == "every 1:00:00 (Europe/Berlin)"
    assert updated["revision"] == 5
    assert terminal("schedules", "trigger", "report", "--json").json["task_id"]
    assert terminal("schedules", "delete", "report", "--revision", "2").code == 1
    assert terminal("schedules", "delete", "report").out == "report is deleted.\n"
    assert terminal("schedules", "show", "report").code == 1


def test_all_that_its_times_go_by_is_shown(terminal: Terminal, whole: Server) -> None:
    rules = ("--start", "2030-01-01T00:00:00Z", "--end", "2031-01-01T00:00:00Z", "--jitter", "5m")
    more = ("--except", "2030-12-24/2030-12-26", "--catch-up", "all", "--catch-up-window", "2h")
    made = terminal("schedules", "create", "report", *DAILY, *rules, *more, "--json").json
    assert (made["zone"], made["start"], made["end"]) == (
        "Europe/Berlin",
        "2030-01-01T00:00:00.000Z",
        "2031-01-01T00:00:00.000Z",
    )
    assert (made["jitter_s"], made["excluded"], made["catch_up_window_s"]) == (300.0, ["2030-12-24/2030-12-26"], 7200.0)
    assert (made["gap"], made["repeat"]) == ("auto", "auto")
    said = terminal("schedules", "show", "report").out
    assert "2031-01-01" in said
    assert "2030-12-24/2030-12-26" in said
    assert "auto" not in said


def test_a_fixed_delay(terminal: Terminal, whole: Server) -> None:
    made = terminal("schedules", "create", "poll", "--queue", "mails", "--fixed-delay", "5m", "--json").json
    assert (made["when"], made["overlap"], len(made["upcoming"])) == ("0:05:00 after each end", "skip", 1)
    refused = terminal("schedules", "preview", "poll")
    assert refused.code == 2
    assert "counts from when the task before ends" in refused.err


def test_what_is_open_and_how_the_last_ones_ended(terminal: Terminal, whole: Server) -> None:
    options = ("--overlap", "skip", "--pause-on-dead", "--json")
    made = terminal("schedules", "create", "report", *DAILY, *options).json
    assert (made["overlap"], made["pause_on_dead"], made["open_task_id"], made["last"]) == ("skip", True, None, [])
    task_id = terminal("schedules", "trigger", "report", "--json").json["task_id"]
    again = terminal("schedules", "trigger", "report")
    assert again.code == 1
    assert "is open, and the schedule's overlap policy allows no other one" in again.err
    assert task_id in terminal("schedules", "show", "report").out
    updated = terminal("schedules", "update", "report", "--overlap", "buffer_all", "--no-pause-on-dead", "--json").json
    assert (updated["overlap"], updated["pause_on_dead"], updated["catch_up"]) == ("buffer_all", False, "latest")
    assert terminal("schedules", "delete", "report", "--cancel-open").code == 0
    assert "CANCELLED" in terminal("get", task_id).out


TASKS = {
    "--priority": "3",
    "--limit-key": "acme",
    "--content-type": "text/plain",
    "--expire-in": "10m",
    "--soft-expire-in": "5m",
    "--keep-result": "30m",
    "--stall-timeout": "20s",
    "--on-end": "ends",
    "--max-attempts": "4",
    "--backoff": "5s",
    "--max-backoff": "1m",
    "--attempt-timeout": "40s",
    "--task-label": "team=a",
}
OPTIONS = {
    "priority": 3,
    "limit_key": "acme",
    "content_type": "text/plain",
    "expire_after": "10m",
    "soft_expire_after": "5m",
    "keep_result": "30m",
    "stall_timeout": "20s",
    "on_end": "ends",
    "on_demand": True,
    "retry": {"max_attempts": 4, "initial_backoff": "5s", "max_backoff": "1m", "attempt_timeout": "40s"},
    "labels": {"team": "a"},
}


def test_its_tasks_have_the_options_of_a_task(terminal: Terminal, whole: Server, tmp_path: Path) -> None:
    """Named as those of `schedule`: the same by options and by a file."""
    file = tmp_path / "schedules.jsonl"
    file.write_text(json.dumps({"schedule_id": "filed", "queue": "mails", "cron": "0 9 * * *", "options": OPTIONS}))
    assert terminal("schedules", "create", "--file", str(file)).code == 0
    assert terminal("schedules", "create", "typed", *DAILY, *_flat(TASKS), "--on-demand").code == 0
    triggered = [terminal("schedules", "trigger", each, "--json").json["task_id"] for each in ("typed", "filed")]
    shown = [terminal("get", each, "--json").json for each in triggered]
    kept = ("priority", "limit_key", "content_type", "labels", "on_demand")
    assert [{name: each[name] for name in kept} for each in shown] == [
        {"priority": 3, "limit_key": "acme", "content_type": "text/plain", "labels": {"team": "a"}, "on_demand": True}
    ] * 2
    templates = [_template(whole, name) for name in ("typed", "filed")]
    assert templates[0] == templates[1]
    assert {"retry", "keep_result", "stall_timeout", "on_end", "expire_after"} <= {
        field.name for field, _ in templates[0].ListFields()
    }


def _flat(options: dict[str, str]) -> list[str]:
    return [part for option in options.items() for part in option]


def _template(whole: Server, name: str) -> TaskTemplate:
    with grpc.insecure_channel(whole.address) as channel:
        request = GetScheduleRequest(schedule_id=name)
        shown: GetScheduleResponse = ScheduleServiceStub(channel).GetSchedule(request)
        return shown.schedule.template


def test_wrong_options_of_tasks_in_a_file(terminal: Terminal, whole: Server, tmp_path: Path) -> None:
    file = tmp_path / "schedules.jsonl"
    for wrong, said in (
        ({"prio": 1}, "options has 'prio', which is unknown"),
        ([], "options is []: give an object"),
        ({"retry": {"tries": 1}}, "options.retry has 'tries', which is unknown"),
        ({"expire_after": "soon"}, "is not a span of time"),
    ):
        file.write_text(json.dumps({"schedule_id": "a", "queue": "q", "every": 60, "options": wrong}))
        ran = terminal("schedules", "create", "--file", str(file))
        assert (ran.code, said in ran.err) == (2, True)


def test_a_file_of_schedules_is_created_line_by_line(terminal: Terminal, whole: Server, tmp_path: Path) -> None:
    file = tmp_path / "schedules.jsonl"
    lines = [
        {"schedule_id": "a", "queue": "mails", "every": "10m", "payload_base64": "Z28=", "labels": {"team": "a"}},
        {"schedule_id": "never", "queue": "mails", "cron": "0 0 30 2 *"},
        {"schedule_id": "b", "queue": "mails", "at": ["2030-05-01T09:00:00"], "zone": "Europe/Berlin"},
    ]
    file.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    ran = terminal("schedules", "create", "--file", str(file))
    assert ran.code == 1
    assert ran.out.startswith("never: ")
    assert "1 of 3 schedules were refused; the others are there." in ran.err
    assert terminal("schedules", "show", "a", "--json").json["payload"] == "go"
    again = terminal("schedules", "create", "--file", str(file), "--update", "--json")
    assert [(each["schedule_id"], each["revision"]) for each in again.lines] == [("a", 1), ("never", 0), ("b", 1)]


def test_a_line_that_is_no_schedule_is_told_with_its_number(terminal: Terminal, whole: Server, tmp_path: Path) -> None:
    good, file = '{"schedule_id": "a", "queue": "q", "every": 60}', tmp_path / "schedules.jsonl"
    for wrong, said in (
        ("{", "is no JSON"),
        ("[]", "needs an object with schedule_id and queue"),
        (good.replace("every", "evry"), "has 'evry', which is unknown"),
        (good.replace("60", '"often"'), "is not a span of time"),
        (good.replace(', "every": 60', ""), "Say when"),
    ):
        file.write_text(f"{good}\n{wrong}\n")
        ran = terminal("schedules", "create", "--file", str(file))
        assert ran.code == 2
        assert f"{file}, line 2" in ran.err
        assert said in ran.err
    file.write_text("")
    assert "is empty" in terminal("schedules", "create", "--file", str(file)).err


def test_a_prune_shows_what_it_would_delete_before_it_does(terminal: Terminal, whole: Server) -> None:
    for name in ("a", "b", "c"):
        terminal("schedules", "create", name, *DAILY, "--label", "app=bills")
    ran = terminal("schedules", "prune", "--label", "app=bills", "--keep", "a, b")
    assert ran.out == "c\n1 would be deleted. Nothing was: add --force to delete them.\n"
    forced = terminal("schedules", "prune", "--label", "app=bills", "--keep", "a,b", "--force", "--json")
    assert forced.json == {"schedule_ids": ["c"], "dry_run": False}
    assert {each["schedule_id"] for each in terminal("schedules", "list", "--json").lines} == {"a", "b"}


def test_a_backfill_is_begun_listed_and_cancelled(terminal: Terminal, whole: Server) -> None:
    terminal("schedules", "create", "report", *DAILY)
    span = ("--from", "2029-12-01T00:00:00Z", "--to", "2030-01-01T00:00:00Z")
    begun = terminal("schedules", "backfill", "report", *span, "--rate", "1", "--id", "december", "--json").json
    assert (begun["backfill_id"], begun["state"], begun["total"], begun["rate"]) == ("december", "RUNNING", 31, 1)
    assert "december" in terminal("schedules", "backfills", "report").out
    ended = terminal("schedules", "cancel-backfill", "report", "december").out
    assert ended.startswith("december: cancelled, ")
    again = terminal("schedules", "backfill", "report", *span, "--id", "december")
    assert again.code == 1
    assert "has a backfill 'december' already" in again.err
    skip = terminal("schedules", "backfill", "report", *span, "--overlap", "skip")
    assert skip.code == 2
    assert "would drop nearly all of its instants" in skip.err
    unknown = terminal("schedules", "backfills", "other")
    assert (unknown.code, "There is no schedule 'other'" in unknown.err) == (1, True)
    terminal("schedules", "create", "other", *DAILY)
    assert "No backfills." in terminal("schedules", "backfills", "other").out


def test_a_backfill_may_be_waited_for(terminal: Terminal, whole: Server) -> None:
    terminal("schedules", "create", "report", *DAILY)
    span = ("--from", "2029-12-31T00:00:00Z", "--to", "2030-01-01T00:00:00Z")
    ran = terminal("schedules", "backfill", "report", *span, "--id", "eve", "--wait")
    assert ran.out == "eve: done, 1 of 1 task created.\n"


def test_a_preview_names_what_a_change_of_the_clock_moves(terminal: Terminal, whole: Server) -> None:
    shown = terminal(
        "schedules", "preview", "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--from", "2030-03-30T12:00:00Z",
        "--count", "1", "--json",
    )  # fmt: skip
    assert shown.json == {
        "instant": "2030-03-31T01:00:00.000Z",
        "local_time": "2030-03-31T03:00:00+02:00",
        "change": "MOVED from 02:30:00",
        "fire_time": "2030-03-31T01:00:00.000Z",
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("preview",), "Say what to look at"),
        (("list", "--state", "asleep"), "is not a state of a schedule"),
        (("create", "x", "--queue", "q", "--every", "often"), "is not a span of time"),
        (("prune", "--force"), "Say whose schedules"),
        (("create", "x"), "Say what to create: an ID and --queue, or --file."),
        (("create", "x", "--file", "f"), "give nothing with it but --update"),
        (("create", "--file", "f", "--cron", "@daily"), "give nothing with it but --update"),
        (("create", "--file", "f", "--overlap", "skip"), "give nothing with it but --update"),
        (("update", "x", "--catch-up-window", "3s"), "give --catch-up with it"),
    ],
)
def test_wrong_input_is_answered_in_a_sentence(terminal: Terminal, arguments: tuple[str, ...], sentence: str) -> None:
    ran = terminal("schedules", *arguments)
    assert ran.code == 2
    assert sentence in ran.err


def test_when_is_refused_with_its_field(terminal: Terminal, whole: Server) -> None:
    for wrong in (("--cron", "61 * * * *"), ("--every", "100ms"), ("--cron", "0 9 * * *", "--zone", "Mars/Olympus")):
        ran = terminal("schedules", "create", "x", "--queue", "q", *wrong)
        assert ran.code == 2, ran
        assert ran.err.startswith("timerd: ")


def test_an_update_leaves_what_it_does_not_name(terminal: Terminal, whole: Server) -> None:
    terminal("schedules", "create", "x", *DAILY, "--max-count", "5", "--catch-up", "all", "--catch-up-window", "1h")
    fewer = terminal("schedules", "update", "x", "--max-count", "3", "--json").json
    assert (fewer["max_count"], fewer["catch_up"]) == (3, "all")
    latest = terminal("schedules", "update", "x", "--catch-up", "latest", "--json").json
    assert (latest["max_count"], latest["catch_up"]) == (3, "latest")
    assert terminal("schedules", "update", "x", "--max-count", "0", "--json").json["max_count"] == 0
    nothing = terminal("schedules", "update", "x")
    assert (nothing.code, "Say what changes: when it comes (as --cron)" in nothing.err) == (2, True)


@pytest.mark.parametrize("option", ["--every", "--fixed-delay"])
def test_a_span_of_nothing_is_refused_for_what_it_is(terminal: Terminal, whole: Server, option: str) -> None:
    ran = terminal("schedules", "create", "x", "--queue", "q", option, "0s")
    assert (ran.code, ran.out) == (2, "")
    assert option.strip("-").replace("-", "_") in ran.err
    assert "Say when" not in ran.err
