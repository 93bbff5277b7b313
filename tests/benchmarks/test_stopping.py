"""Who interrupts a benchmark finds nothing of it left; wrong arguments and files of others get a sentence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.figures import BenchmarkFailed
from benchmarks.given import read
from benchmarks.peers import __main__ as peers
from benchmarks.peers.rows import ROWS
from benchmarks.stopping import INTERRUPTED

PATIENCE_S = 30.0
LOOK_EVERY_S = 0.02


def servers(folder: Path) -> list[int]:
    """Of the processes here, those with a file of this folder on their command line."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words and b"serve" in words.split(b"\0"):
            found.append(int(place.name))
    return found


@contextmanager
def heeding_interrupts() -> Iterator[None]:
    """A process that is started here heeds Ctrl-C also where this one, in the background of a shell, does not. Not by
    `preexec_fn`: then the process is forked, and gRPC, which other tests use here, says so on its stderr."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.process
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_benchmark_leaves_nothing_behind(by: signal.Signals, tmp_path: Path) -> None:
    """While its first server is starting, when nothing but the start knows of it."""
    where = ["--json", str(tmp_path / "figures.jsonl"), "--directory", str(tmp_path)]
    with heeding_interrupts():
        running = subprocess.Popen(
            [sys.executable, "-m", "benchmarks", "single", "--repeat", "1", *where],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    end_s = time.monotonic() + PATIENCE_S
    while not servers(tmp_path) and time.monotonic() < end_s:
        time.sleep(LOOK_EVERY_S)
    os.kill(running.pid, by)
    _, said = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, servers(tmp_path)) == (INTERRUPTED, [])
    assert said == f"Interrupted. What was measured is in {tmp_path / 'figures.jsonl'}.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["figures.jsonl"]


@pytest.mark.parametrize("main", [command.main, peers.main], ids=["benchmarks", "peers"])
@pytest.mark.parametrize("wrong", ["--scale=0", "--scale=nan", "--scale=inf", "--repeat=0", "--repeat=1.5"])
def test_what_measures_nothing_is_refused(main: object, wrong: str) -> None:
    assert callable(main)
    with pytest.raises(SystemExit) as refused:
        main([wrong])
    assert refused.value.code == 2


@pytest.mark.parametrize("text", ["", "5", "nothing of ours", '{"facts": {}}\n{"contender": "timerd"}', '["facts"]'])
def test_a_file_of_others_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "figures.jsonl"
    path.write_text(text)
    with pytest.raises(BenchmarkFailed, match=r"was not written by|cannot be read"):
        read(path, "python -m benchmarks", "measure")


def test_a_measure_that_is_named_twice_is_run_once() -> None:
    assert [one.name for one in command.chosen(command.parsed(["bulk", "bulk", "--only", "bulk"]))] == ["bulk"]


def test_some_rows_do_not_replace_the_page_of_all(tmp_path: Path) -> None:
    full = [{"contender": "timerd", "row": row, "run": 0, "value": 1.0} for row in ROWS]
    assert peers.whole({"scale": 1}, full)
    assert not peers.whole({"scale": 0.5}, full)
    assert not peers.whole({"scale": 1}, full[1:])
    path = tmp_path / "peers.jsonl"
    path.write_text("\n".join(map(json.dumps, [{"facts": {"scale": 1}}, *full[1:]])))
    assert peers.main(["--from", str(path), "--write-docs"]) == 1
