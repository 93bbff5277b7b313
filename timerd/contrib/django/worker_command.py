"""`manage.py timerd_worker`: runs the tasks that timerd's backend of Django's tasks has enqueued."""

from __future__ import annotations

import os
import secrets
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from timerd.contrib.django.task_api import task_backends
from timerd.contrib.django.task_running import TaskRuns
from timerd.contrib.django.tasks import TimerdBackend
from timerd.worker import Worker

_SERVER = "127.0.0.1:7400"


class WorkerCommand(BaseCommand):  # type: ignore[misc]  # Django has no types
    """Until Ctrl-C, which lets running tasks end."""

    help = "Runs tasks of TASKS that timerd's backend has enqueued, until Ctrl-C."

    def add_arguments(self, parser: Any) -> None:  # noqa: ANN401 - Django has no types
        parser.add_argument("--backend", default="default", help="Name of the backend in TASKS.")
        parser.add_argument(
            "--queue",
            action="append",
            metavar="QUEUE",
            help="Only this queue; may be repeated. Default: all of QUEUES.",
        )
        parser.add_argument("--concurrency", type=int, default=8, help="So many tasks of a queue at a time.")
        parser.add_argument(
            "--server", default=os.environ.get("TIMERD_SERVER", _SERVER), help="Where timerd listens; or TIMERD_SERVER."
        )
        parser.add_argument("--token-file", default=None, help="A file with the token of the worker.")
        parser.add_argument("--tls-ca", default=None, help="Certificate of the authority that the server's is from.")

    def handle(self, *_: object, backend: str, queue: list[str] | None, concurrency: int, **given: Any) -> None:  # noqa: ANN401
        """Raises CommandError where there is nothing to run."""
        chosen = task_backends[backend]
        if not isinstance(chosen, TimerdBackend):
            raise CommandError(f"TASKS[{backend!r}] is {type(chosen).__name__}: its worker is another one.")
        queues = sorted(queue or chosen.queues)
        if not queues:
            raise CommandError("The backend has no QUEUES of its own: name those to serve by --queue.")
        worker = Worker(
            given["server"], namespace=chosen.namespace, token_file=given["token_file"], ca_file=given["tls_ca"]
        )
        runs = TaskRuns(chosen, f"{os.uname().nodename}-{secrets.token_hex(4)}")
        for each in queues:
            worker.on(each, concurrency=concurrency)(runs)
        self.stdout.write(f"Runs the tasks of {', '.join(queues)} from timerd at {given['server']}; Ctrl-C ends it.")
        self.stdout.flush()
        worker.run_forever()
