"""The run: a server, callers and workers; a kill about every minute, of the server or now and then of a worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.process.children import Child, Server
from tests.process.soak.books import Books
from tests.process.soak.logs import CompactReader
from tests.process.soak.samples import (
    GROWING,
    Sample,
    Trend,
    behind,
    lateness_of,
    memory_of,
    open_files_of,
    size_of,
    trend,
)
from timerd.demo.records import Kill, now_ms

WORKERS = 2
# Of the kills, those that meet a worker.
_WORKER_SHARE = 0.2
# Deliveries of a worker that died begin again within this.
_WORKER_GRACE_MS = 3_000
_LOOK_S = 0.2
_SAY_EVERY_S = 60.0
# Nothing has come for so long: nothing comes any more.
_QUIET_S = 2.5
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Settings:
    seconds: float
    rate: int
    kill_every_s: float
    sample_every_s: float
    warm_up_s: float
    # How long ended tasks keep their outcome: short, so that disk can become flat within the run.
    history: str
    seed: int
    folder: Path


@dataclass(slots=True)
class Report:
    settings: Settings
    samples: list[Sample] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    killed_s: list[float] = field(default_factory=list)
    server_kills: int = 0
    broken: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    # Still coming when the run gave up waiting for them: late, and nobody knows whether lost.
    outstanding: int = 0

    @property
    def holds(self) -> bool:
        return not any(self.broken.values())

    @property
    def behind(self) -> list[Sample]:
        """Samples of a machine that did not keep the pace: what grew then says nothing about what a run costs."""
        return behind(self.samples)

    @property
    def trends(self) -> list[Trend]:
        return [trend(self.samples, name, self.settings.warm_up_s) for name in GROWING]


class WorkerChild(Child):
    """Each start has a log of its own."""

    def __init__(self, folder: Path, name: str, target: str, seed: int) -> None:
        self._log = folder / f"{name}.log"
        super().__init__(["-m", "tests.process.soak.worker", target, str(self._log), str(seed)], folder / f"{name}.err")


class Soak:
    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._rng = Random(settings.seed)
        self._server = Server(settings.folder, "--keep-history", settings.history)
        self._workers = [self._new_worker(n, 0) for n in range(WORKERS)]
        self._starts = [0] * WORKERS
        self._started_s = 0.0
        self._books = Books()
        self._report = Report(settings)
        self._ready_pid = 0

    def play(self) -> Report:
        settings = self._settings
        with self._processes():
            # The callers know the end from the start, so that all they ask for is due by then.
            end_ms = int(now_ms() + settings.seconds * 1000) + 1_000
            caller = self._caller(end_ms)
            try:
                caller.start()
                self._started_s = time.monotonic()
                self._work()
                code = caller.wait(_PATIENCE_S)
                if code != 0:
                    raise RuntimeError(f"the callers failed: {caller.errors()[-2000:]}")
            finally:
                caller.kill()
            self._settle(end_ms)
        report = self._report
        report.broken = self._books.verdict(report.kills)
        report.counts = dict(self._books.counts)
        if report.outstanding:
            report.broken["lost"] = []
        return report

    @contextmanager
    def _processes(self) -> Iterator[None]:
        try:
            self._start_server()
            for worker in self._workers:
                worker.start()
            yield
        finally:
            for child in (*self._workers, self._server):
                child.kill()

    def _caller(self, end_ms: int) -> Child:
        settings = self._settings
        self._readers = [CompactReader(settings.folder / "caller.log")]
        self._readers += [CompactReader(settings.folder / f"worker-{n}-0.log") for n in range(WORKERS)]
        numbers = (settings.rate, end_ms, settings.seed)
        arguments = ["-m", "tests.process.soak.caller", self._server.address, str(settings.folder / "caller.log")]
        return Child([*arguments, *map(str, numbers)], settings.folder / "caller.err")

    def _new_worker(self, number: int, start: int) -> WorkerChild:
        seed = self._settings.seed + 100 * number + start
        return WorkerChild(self._settings.folder, f"worker-{number}-{start}", self._server.address, seed)

    def _start_server(self) -> None:
        self._server.start()
        self._ready_pid = self._server.pid

    @property
    def _at_s(self) -> float:
        return time.monotonic() - self._started_s

    # -- while it runs --------------------------------------------------------------------------------------------

    def _work(self) -> None:
        settings = self._settings
        kill_s = self._next_kill_s()
        sample_s = 0.0
        said_s = _SAY_EVERY_S
        while self._at_s < settings.seconds:
            self._read()
            if self._at_s >= sample_s:
                sample_s = self._at_s + settings.sample_every_s
                self._sample()
            if self._at_s >= kill_s and self._at_s < settings.seconds - 2:
                self._kill()
                kill_s = self._at_s + self._next_kill_s()
            if self._at_s >= said_s:
                said_s += _SAY_EVERY_S
                self._say(self._state())
            time.sleep(_LOOK_S)

    def _next_kill_s(self) -> float:
        return self._settings.kill_every_s * self._rng.uniform(0.5, 1.5)

    def _read(self) -> None:
        for reader in self._readers:
            self._books.take(reader.read())

    def _kill(self) -> None:
        """At an instant that the load does not choose."""
        killed_ms = now_ms()
        self._report.killed_s.append(self._at_s)
        if self._rng.random() < _WORKER_SHARE:
            self._kill_worker(self._rng.randrange(WORKERS))
            self._report.kills.append(Kill(killed_ms, now_ms() + _WORKER_GRACE_MS))
            return
        self._server.kill()
        self._report.server_kills += 1
        self._start_server()
        self._report.kills.append(Kill(killed_ms, now_ms()))

    def _kill_worker(self, number: int) -> None:
        self._workers[number].kill()
        self._starts[number] += 1
        self._workers[number] = self._new_worker(number, self._starts[number])
        self._workers[number].start()
        name = f"worker-{number}-{self._starts[number]}.log"
        self._readers.append(CompactReader(self._settings.folder / name))

    def _sample(self) -> None:
        pss, rss = memory_of(self._server.pid)
        p50, p99, largest = lateness_of(self._books.lateness_ms)
        self._books.lateness_ms.clear()
        database = self._server.data / "timerd.db"
        sample = Sample(
            at_s=round(self._at_s, 2),
            pss_bytes=pss,
            rss_bytes=rss,
            open_files=open_files_of(self._server.pid),
            database_bytes=size_of(database),
            log_bytes=size_of(database.with_name("timerd.db-wal")),
            scheduled=self._books.counts["scheduled"],
            arrived=self._books.counts["arrived"],
            in_hand=self._books.in_hand,
            late_p50_ms=p50,
            late_p99_ms=p99,
            late_max_ms=largest,
            judge_rss_bytes=memory_of_self(),
        )
        self._report.samples.append(sample)

    def _state(self) -> str:
        last = self._report.samples[-1]
        return (
            f"minute {self._at_s / 60:4.1f}: scheduled {last.scheduled:,}, arrived {last.arrived:,}, "
            f"kills {len(self._report.kills)}, PSS {last.pss_bytes >> 20} MiB, files {last.open_files}, "
            f"disk {last.database_bytes >> 20} + {last.log_bytes >> 20} MiB, p99 {last.late_p99_ms:.1f} ms"
        )

    def _settle(self, end_ms: int) -> None:
        """Until all that must come is here and nothing else comes; what is missing then, the verdict names. A server
        that fell behind is waited for as long as something comes, and at most as long as the run took."""
        started_s = heard_s = time.monotonic()
        while time.monotonic() < heard_s + _PATIENCE_S:
            self._read()
            if self._books.lateness_ms:
                heard_s = time.monotonic()
                self._books.lateness_ms.clear()
            over = now_ms() > end_ms and time.monotonic() > heard_s + _QUIET_S
            if over and not self._books.missing():
                return
            if time.monotonic() > started_s + self._settings.seconds + _PATIENCE_S:
                self._report.outstanding = self._books.missing()
                return
            time.sleep(_LOOK_S)


def memory_of_self() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def run(settings: Settings, say: Callable[[str], None]) -> Report:
    return Soak(settings, say).play()
