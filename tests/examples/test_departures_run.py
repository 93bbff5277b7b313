"""A day and the whole year against a real server process, by the commands that a user types."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from examples.departures.logs import CALLS, DELIVERIES, Call, LogWriter, Received, read_log
from examples.departures.replay import verdict_of

ROOT = Path(__file__).resolve().parents[2]


def departures(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "examples.departures", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=300)


@pytest.fixture(scope="module")
def day(flights_installed: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of the blizzard of February: half of the flights never left."""
    logs = tmp_path_factory.mktemp("day")
    done = departures("replay", "--day", "2013-02-08", "--speed", "7200", "--logs", str(logs))
    assert done.returncode == 0, done.stdout + done.stderr
    return logs


@pytest.mark.process
@pytest.mark.timeout(300)
def test_a_day_is_replayed_and_every_flight_is_called_right(day: Path) -> None:
    verdict, _ = verdict_of(day)
    assert verdict.counts["flights"] == verdict.counts["reminders stored"] == 930
    assert verdict.counts["answers that never came"] == 0
    # How many of them come in time is the machine's affair.
    assert verdict.counts["moves done"] + verdict.counts["moves too late"] > 0
    assert verdict.counts["cancelled"] + verdict.counts["cancels too late"] > 0
    assert verdict.counts["reminders fired"] + verdict.counts["cancelled"] == 930


@pytest.mark.process
@pytest.mark.timeout(300)
def test_the_oracle_finds_a_delivery_that_is_taken_out_of_the_logs(day: Path, tmp_path: Path) -> None:
    shutil.copytree(day, tmp_path, dirs_exist_ok=True)
    received = read_log(tmp_path / DELIVERIES, Received)
    (tmp_path / DELIVERIES).unlink()
    writer = LogWriter(tmp_path / DELIVERIES)
    writer.write(received[1:])
    writer.close()
    judged = departures("judge", str(tmp_path))
    assert judged.returncode == 1
    assert f"{received[0].flight_id}" in judged.stdout
    assert len(read_log(tmp_path / CALLS, Call)) > len(received)


@pytest.mark.long
@pytest.mark.process
@pytest.mark.timeout(300)
def test_a_month_of_the_year_is_stored_counted_listed_and_purged(flights_installed: None) -> None:
    done = departures("year", "--months", "1", "--day", "2013-01-05")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DIFFERS" not in done.stdout
    assert done.stdout.count("agrees") == 20
    # Counted in January, found by the dry run, counted after it, purged.
    assert sum(line.count("27,004") == 2 for line in done.stdout.splitlines()) == 4


def test_what_cannot_be_run_is_said_in_a_sentence(flights_installed: None, tmp_path: Path) -> None:
    (tmp_path / CALLS).touch()
    wrong_day = departures("replay", "--day", "2014-01-01", "--logs", str(tmp_path / "new"))
    used_folder = departures("replay", "--logs", str(tmp_path))
    no_run = departures("judge", str(tmp_path))
    said = [(each.returncode, each.stdout, each.stderr) for each in (wrong_day, used_folder, no_run)]
    assert said == [
        (2, "", "departures: There are no flights of 2014-01-01: the data holds the year 2013, so name a day of it.\n"),
        (2, "", f"departures: {tmp_path} holds the logs of another run already: name another folder with --logs.\n"),
        (2, "", f"departures: {tmp_path} holds no run: name the folder that a replay wrote its logs to.\n"),
    ]
