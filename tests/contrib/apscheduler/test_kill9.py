"""Two processes that add the same jobs run each of them once, and a server that is killed keeps all of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from apscheduler.schedulers.background import BackgroundScheduler

from tests.process.children import Child, Server
from tests.process.conftest import Children, children, server
from tests.process.waiting import until
from timerd.contrib.apscheduler import TimerdJobStore

__all__ = ["children", "server"]
pytestmark = [pytest.mark.process, pytest.mark.timeout(290)]
JOBS = 20


def test_each_job_runs_once_over_two_processes_and_a_kill_of_the_server(
    children: Children, server: Server, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.touch()
    arguments = ["-m", "tests.contrib.apscheduler.jobs", server.address, str(notes), str(JOBS)]
    for number in range(2):
        children.own(Child(arguments, tmp_path / f"{number}.err")).start()
    server.kill()
    server.start()
    store = TimerdJobStore(server.address, concurrency=0, timeout=60)
    third = BackgroundScheduler(timezone="UTC", jobstores={"default": store})
    third.start()
    kept = third.get_jobs()
    assert len(kept) == JOBS
    for job in kept:
        job.reschedule("date")
    until(lambda: len(notes.read_text().splitlines()) >= JOBS, "all have run")
    seen = Counter(line.split()[0] for line in notes.read_text().splitlines())
    assert seen == {f"job-{number}": 1 for number in range(JOBS)}
    assert third.get_jobs() == []
    third.shutdown()
