"""The README's lines, taken from the README and run as they stand there.

Only the address differs: the port is a free one instead of 7400, in the environment for the commands, replaced in the
text for the rest.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from tests.process.children import Server
from tests.process.conftest import Children
from tests.process.reflected import grpcurl
from tests.process.waiting import until
from timerd.client import ScheduleState, SyncClient
from timerd.demo.processes import free_port

pytestmark = pytest.mark.process
README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
ADDRESS = "127.0.0.1:7400"
_START_S = 60


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## )", README, re.DOTALL | re.MULTILINE)
    assert found, f"the README has no section {title!r}"
    return found[1]


def shell_lines(text: str) -> list[str]:
    """The indented ones, with what a backslash continues."""
    indented = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    return re.sub(r"\\\n\s*", "", "\n".join(indented)).splitlines()


def python_files(text: str) -> dict[str, str]:
    """By the name that stands before each block."""
    return dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", text, re.DOTALL))


class Shop(NamedTuple):
    """A folder in which `timerd dev` runs, typed as in the README."""

    folder: Path
    address: str
    environment: dict[str, str]

    def start(self, command: str, output: Path) -> subprocess.Popen[bytes]:
        with output.open("wb") as out:
            return subprocess.Popen(
                ["/bin/sh", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def type(self, command: str) -> str:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=_START_S,
        )  # fmt: skip
        says = [line for line in done.stderr.splitlines() if not line.startswith("timerd: The worker ")]
        assert (done.returncode, says) == (0, []), (command, done)
        return done.stdout


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    address = f"127.0.0.1:{free_port()}"
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
        "TIMERD_LISTEN": address,
        "TIMERD_HTTP_LISTEN": "127.0.0.1:0",
        "TIMERD_SERVER": address,
    }
    opened = Shop(tmp_path, address, environment)
    serve = next(line for line in shell_lines(section("Sixty seconds with Python")) if line.startswith("timerd dev"))
    running = opened.start(serve, tmp_path / "serve.out")
    try:
        until(lambda: b"ready" in (tmp_path / "serve.out").read_bytes(), "the server is ready")
        yield opened
    finally:
        running.kill()
        running.wait()


def test_the_install_lines_are_the_two_that_this_file_stands_on(shop: Shop) -> None:
    # Installing is what made this test run; .ci/wheel_check.py looks into what it installs.
    environment, *lines = shell_lines(section("Sixty seconds with Python"))[:3]
    assert environment == "python3 -m venv .venv && . .venv/bin/activate"
    assert lines == ["pip install .", "timerd dev"]
    assert (shop.folder / "timerd-data" / "timerd.db").exists()


def test_the_python_tutorial_runs_as_pasted(shop: Shop) -> None:
    files = python_files(section("Sixty seconds with Python"))
    assert set(files) == {"worker.py", "caller.py"}
    for name, text in files.items():
        assert ADDRESS in text
        (shop.folder / name).write_text(text.replace(ADDRESS, shop.address), encoding="utf-8")
    output = shop.folder / "worker.out"
    worker = shop.start("python worker.py", output)
    try:
        said = shop.type("python caller.py").splitlines()
        assert said[0].startswith("safe on disk, fires at ")
        assert "CANCELLED" in said[1]
        until(lambda: output.read_bytes().count(b"\n") >= 3, "both reminders have been printed")
        worker.terminate()
        assert worker.wait(_START_S) == 0
    finally:
        worker.kill()
        worker.wait()
    greeting, *printed = output.read_text().splitlines()
    assert re.fullmatch(r"The worker \S+ is on \S+ and serves reminders \(10 at a time\)\.", greeting)
    pattern = r"(tea is ready|call Ada) \(attempt 1, \d+:\d\d:\d\d(\.\d+)? late\)"
    assert [re.fullmatch(pattern, line) is not None for line in printed] == [True, True], printed
    assert [line.split(" (")[0] for line in printed] == ["tea is ready", "call Ada"]


def test_the_commands_in_the_text_run_as_typed(shop: Shop) -> None:
    text = " ".join(section("Sixty seconds with Python").split())
    schedule, list_, cancel, work, doctor = re.findall(r"`(timerd (?!serve)[^`]+)`", text)
    shop.type(schedule)
    listed = shop.type(list_)
    assert "reminders" in listed
    assert "tea is ready" in listed or "AQ" in listed
    [record] = [json.loads(line) for line in shop.type(f"{list_} --json").splitlines()]
    shop.type(cancel.replace("ID", record["task_id"]))
    assert "All is well" in shop.type(doctor)
    shop.type(schedule)
    assert shop.type(f"{work} --count 1") == "tea is ready"


def test_the_schedule_is_made_as_pasted(server: Server) -> None:
    [block] = re.findall(r"```python\n(.*?)```", section("What comes again"), re.DOTALL)
    with SyncClient(server.address) as client:
        exec(block, {"client": client})
        made = client.schedules.get("report")
    assert (made.queue, made.state) == ("reports", ScheduleState.ACTIVE)


def test_grpcurl_needs_none_of_our_files(server: Server) -> None:
    lines = [
        shlex.split(line.replace(ADDRESS, server.address))[1:]
        for line in shell_lines(section("Any other language"))
        if line.startswith("grpcurl ")
    ]
    schedule, list_ = lines
    assert set(grpcurl(list_).splitlines()) >= {"timerd.v1.TimerService", "timerd.v1.WorkService"}
    assert "timerd.v1.TimerService.Schedule" in grpcurl([*list_, "timerd.v1.TimerService"]).splitlines()
    assert {"template = 3", "payload = 4", "delay = 6"} <= set(
        grpcurl(["-plaintext", server.address, "describe", "timerd.v1.ScheduleRequest"]).splitlines()
    )
    answer = json.loads(grpcurl(schedule))
    assert (answer["outcome"], answer["fireTime"][-1]) == ("ITEM_OUTCOME_STORED", "Z")
    with SyncClient(server.address) as client:
        task = client.get(answer["taskId"])
        assert (task.queue, task.payload) == ("reminders", b"tea is ready")


def test_the_lines_of_curl_make_and_finish_a_task(children: Children, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed here")
    http = f"127.0.0.1:{free_port()}"
    server = children.own(Server(tmp_path, "--http", http))
    server.start()
    typed = [line for line in shell_lines(section("Any other language")) if line.startswith("curl ")]
    schedule, receive, finish = [
        line.replace("127.0.0.1:7401", http).replace("curl ", "curl -sS ", 1) for line in typed
    ]
    made = json.loads(subprocess.check_output(schedule, shell=True, text=True))
    [task] = json.loads(subprocess.check_output(receive, shell=True, text=True))
    assert (task["task_id"], task["payload"]) == (made["task_id"], "tea is ready")
    said = subprocess.check_output(finish.replace("TOKEN", task["ack_token"]), shell=True, text=True)
    assert json.loads(said) == {"finished": 1, "refused": []}
    with SyncClient(server.address) as client:
        assert client.get(made["task_id"]).state.name == "ACKED"


def test_grpcurl_is_told_what_was_wrong(server: Server) -> None:
    bad = '{"template": {"queue": "no spaces"}, "delay": "3s"}'
    with pytest.raises(grpc.RpcError) as refused:
        grpcurl(["-plaintext", "-d", bad, server.address, "timerd.v1.TimerService/Schedule"])
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "no spaces" in str(refused.value.details())
