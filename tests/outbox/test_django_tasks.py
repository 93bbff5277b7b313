"""Django's own tasks through timerd: a project with its transactions, the relay, and `manage.py timerd_worker`."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.process.children import Child, Server
from tests.process.conftest import Children
from tests.process.waiting import until
from timerd.client import SyncClient, TaskState
from timerd.contrib.django.task_messages import TaskMessage

pytestmark = pytest.mark.process
HAS_TASKS = importlib.util.find_spec("django_tasks") or importlib.util.find_spec("django.tasks")
needs_tasks = pytest.mark.skipif(not HAS_TASKS, reason="There is neither Django 6 nor the package django-tasks.")
SETTINGS = """
USE_TZ = True
SECRET_KEY = "x"
INSTALLED_APPS = ["timerd.contrib.django"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db", "OPTIONS": {"timeout": 30}}}
TASKS = {
    "default": {
        "BACKEND": "timerd.contrib.django.tasks.TimerdBackend",
        "QUEUES": ["default", "mails"],
        "OPTIONS": {"max_attempts": 2},
    }
}
"""
TASKS = """
import asyncio
import json

from timerd.contrib.django.task_api import task_finished, task_started
try:
    from django.tasks import task
except ImportError:
    from django_tasks import task


def note(**what):
    with open("ran.jsonl", "a") as file:
        file.write(json.dumps(what) + "\\n")


def heard(which, **given):
    result = given["task_result"]
    note(signal=which, status=str(result.status), errors=[each.exception_class_path for each in result.errors])


task_started.connect(lambda **given: heard("started", **given), weak=False)
task_finished.connect(lambda **given: heard("finished", **given), weak=False)


@task
def remind(user, text="tea"):
    note(user=user, text=text)


@task(queue_name="mails", priority=40, takes_context=True)
async def send(context, to):
    await asyncio.sleep(0)
    note(to=to, attempt=context.attempt, id=context.task_result.id, priority=context.task_result.task.priority)
    if context.attempt == 1:
        raise KeyError(to)
"""
PROGRAM = """
import sys
from datetime import datetime, timedelta, timezone
import django
django.setup()
from django.core.management import call_command
from django.db import transaction
from timerd.contrib.django import outbox
from timerd.contrib.django.task_api import InvalidTask, task_backends
import shop_tasks

call_command("migrate", verbosity=0)

backend = task_backends["default"]
later = datetime.now(timezone.utc) + timedelta(days=1)
with transaction.atomic():
    first = shop_tasks.remind.enqueue(7, text="call Ada")
    second = shop_tasks.send.enqueue("bob")
    third = shop_tasks.remind.using(run_after=later, priority=-100).enqueue(8)
    never = shop_tasks.remind.enqueue(9)
    outbox.cancel("django/" + never.id)
try:
    with transaction.atomic():
        shop_tasks.remind.enqueue(10)
        raise KeyError
except KeyError:
    pass
said = []
for wrong in (
    lambda: shop_tasks.remind.using(queue_name="others"),
    lambda: shop_tasks.remind.using(run_after=datetime(2030, 1, 1)),
    lambda: shop_tasks.remind.enqueue(object()),
    lambda: first.refresh(),
):
    try:
        wrong()
    except (InvalidTask, TypeError, NotImplementedError) as refused:
        said.append(type(refused).__name__)
flags = [backend.supports_defer, backend.supports_async_task, backend.supports_priority, backend.supports_get_result]
import json
print(json.dumps({"third": third.id, "second": second.id, "status": str(first.status), "said": said, "flags": flags}))
"""


def environment() -> dict[str, str]:
    paths = os.pathsep.join([".", *sys.path])
    return {**os.environ, "PYTHONPATH": paths, "DJANGO_SETTINGS_MODULE": "shop_settings"}


def project(folder: Path) -> None:
    (folder / "shop_settings.py").write_text(SETTINGS)
    (folder / "shop_tasks.py").write_text(TASKS)


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=120
    )


class In(Child):
    """A command of Django's in the folder of a project."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        code = (
            f"import os; os.chdir({str(folder)!r}); import django.core.management as m; m.execute_from_command_line()"
        )
        super().__init__(["-u", "-c", code, *arguments], folder / f"{arguments[0]}.err", environment())


def ran(folder: Path) -> list[dict[str, object]]:
    file = folder / "ran.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@needs_tasks
def test_what_a_transaction_enqueues_is_run_once_it_is_committed(tmp_path: Path, children: Children) -> None:
    project(tmp_path)
    done = run(tmp_path, PROGRAM)
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout)
    assert said["flags"] == [True, True, True, False]
    assert said["status"] == "READY"
    assert said["said"][1:] == [said["said"][0], "TypeError", "NotImplementedError"]
    server = children.own(Server(tmp_path))
    server.start()
    relay = ["-m", "timerd.cli", "outbox", "run", "--database", f"sqlite:///{tmp_path / 'shop.db'}"]
    children.own(Child([*relay, "--server", server.address], tmp_path / "relay.err")).start()
    worker = children.own(In(tmp_path, "timerd_worker", "--server", server.address, "--queue", "mails"))
    worker.start()
    until(lambda: {"to", "attempt"} <= {key for each in ran(tmp_path) for key in each}, "the queue is served")
    attempts = [each for each in ran(tmp_path) if "attempt" in each]
    assert attempts[0] == {"to": "bob", "attempt": 1, "id": said["second"], "priority": 40}
    until(lambda: len([each for each in ran(tmp_path) if "attempt" in each]) == 2, "it is tried again")
    other = children.own(In(tmp_path, "timerd_worker", "--server", server.address, "--queue", "default"))
    other.start()
    until(lambda: {"user": 7, "text": "call Ada"} in ran(tmp_path), "the other queue is served")
    with SyncClient(server.address) as client:
        third = client.get(key=f"django/{said['third']}")
        assert (third.state, third.priority, third.labels) == (TaskState.PENDING, 0, {"task": "shop_tasks.remind"})
        assert timedelta(hours=23) < third.fire_time - datetime.now(UTC) < timedelta(hours=25)
        until(lambda: client.count(queue="default") == 1, "what was run is over")
    signals = [(each["signal"], each["status"], each["errors"]) for each in ran(tmp_path) if "signal" in each]
    assert [each for each in signals if each[0] == "finished"] == [
        ("finished", "FAILED", ["builtins.KeyError"]),
        ("finished", "SUCCESSFUL", []),
        ("finished", "SUCCESSFUL", []),
    ]
    assert {each.get("user") for each in ran(tmp_path)} == {None, 7}
    worker.terminate()
    other.terminate()


@needs_tasks
def test_options_that_are_none_are_told(tmp_path: Path) -> None:
    project(tmp_path)
    settings = (tmp_path / "shop_settings.py").read_text()
    (tmp_path / "shop_settings.py").write_text(settings.replace('"max_attempts"', '"max_tries"'))
    done = run(tmp_path, "import django; django.setup(); import shop_tasks")
    assert "has ['max_tries']: timerd's backend knows ['max_attempts', 'namespace', 'using']" in done.stderr


def test_without_a_tasks_api_it_is_said_what_to_install(tmp_path: Path) -> None:
    """As if neither were installed."""
    program = """
import sys
for name in ("django.tasks", "django_tasks"):
    sys.modules[name] = None
import timerd.contrib.django.task_api
"""
    done = run(tmp_path, program)
    assert done.returncode == 1
    assert "needs Django 6, or on an older one the package django-tasks: pip install django-tasks." in done.stderr


def test_a_message_is_read_as_it_was_written() -> None:
    message = TaskMessage("abc", "shop.remind", [7], {"text": "tea"}, datetime(2030, 1, 1, tzinfo=UTC), {"priority": 3})
    assert TaskMessage.of_bytes(message.to_bytes()) == message
    for wrong in (b"\xff", b"[]", b"{}", b'{"v": 1}'):
        with pytest.raises(ValueError, match="no task of Django's"):
            TaskMessage.of_bytes(wrong)
    with pytest.raises(ValueError, match="upgrade the worker"):
        TaskMessage.of_bytes(message.to_bytes().replace(b'"v": 1', b'"v": 2'))
