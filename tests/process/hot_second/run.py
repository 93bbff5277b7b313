"""The run: store everything ahead, let it fall due, and watch who is served when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.process.children import Child, Server
from tests.process.hot_second.lateness import Lateness, lateness
from tests.process.soak.books import Books
from tests.process.soak.logs import OUTCOMES, CompactReader, Kind, Line
from tests.process.soak.samples import memory_of
from timerd.client import Client, Task
from timerd.demo.records import now_ms

HOT, OTHER = "hot", "other"
SLOW_WORKERS = 2
_OK = OUTCOMES.index("OK")
# Enough to show what a message costs, small enough that nobody waits for it.
_PAYLOAD_BYTES = 100
_STORE_AT_ONCE = 50_000
_LOOK_S = 0.25
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Settings:
    """The other queue gets `other_rate` a second from `lead_s` before the hot second to `window_s` after it."""

    tasks: int
    pace: int
    other_rate: int
    lead_s: float
    window_s: float
    ahead_s: float
    memory_mb: int
    patience_s: float
    folder: Path
    # Only where the machine has nothing else to do is lateness a statement about the server.
    judges_lateness: bool = False


@dataclass(slots=True)
class Report:
    settings: Settings
    hot_ms: int = 0
    stored_in_time: bool = False
    used_bytes: list[int] = field(default_factory=list)
    pss_bytes: list[int] = field(default_factory=list)
    # (fire_at_ms, received_ms) of each delivery, in the order of arrival.
    hot: list[tuple[int, float]] = field(default_factory=list)
    other: list[tuple[int, float]] = field(default_factory=list)
    broken: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    # (when, processor time) of the long steps of the server's loop.
    steps: list[tuple[float, float]] = field(default_factory=list)

    @property
    def drained_ms(self) -> float:
        return max((at for _, at in self.hot), default=float(self.hot_ms))

    @property
    def lateness(self) -> Lateness:
        return lateness(self.other, self.hot_ms, self.drained_ms)

    @property
    def largest_step_ms(self) -> float:
        """Of the loop, from the second on; 0: none was worth a note."""
        return max((took_ms for at_ms, took_ms in self.steps if at_ms >= self.hot_ms), default=0.0)

    @property
    def is_kept(self) -> bool:
        """Nothing was lost, early or given twice."""
        return self.stored_in_time and not any(self.broken.values()) and not self.counts.get("duplicates", 0)

    @property
    def holds(self) -> bool:
        return self.is_kept and (self.lateness.is_on_time or not self.settings.judges_lateness)


class MeasuredServer(Server):
    """Its `steps` are read when it is over."""

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder, *options)
        self._steps = folder / "steps.log"
        at = self._command.index("timerd.cli")
        self._command[at : at + 1] = ["tests.process.hot_second.server", str(self._steps)]

    def steps(self) -> list[tuple[float, float]]:
        lines = (line.split() for line in self._steps.read_text(encoding="ascii").splitlines())
        return [(float(at_ms), float(took_ms)) for at_ms, took_ms in lines]


class HotSecond:
    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        folder = settings.folder
        self._settings = settings
        self._say = say
        self._report = Report(settings)
        self._books = Books()
        self._server = MeasuredServer(folder, "--memory-mb", str(settings.memory_mb))
        self._logs = {name: folder / f"{name}.log" for name in (OTHER, *(f"{HOT}-{n}" for n in range(SLOW_WORKERS)))}
        self._readers = {name: CompactReader(path) for name, path in self._logs.items()}

    async def play(self) -> Report:
        settings, report = self._settings, self._report
        with ExitStack() as stack:
            self._start(self._server, stack)
            async with Client(self._server.address, timeout=120) as client:
                report.hot_ms = int(now_ms() + settings.ahead_s * 1000)
                await self._store(client)
                report.stored_in_time = now_ms() < report.hot_ms - settings.lead_s * 1000
                self._say(f"stored {settings.tasks:,} tasks for one second, {report.hot_ms - now_ms():,.0f} ms ahead")
                for name, log in self._logs.items():
                    pace = 0 if name == OTHER else settings.pace
                    queue = name.partition("-")[0]
                    arguments = [self._server.address, queue, str(log), str(pace)]
                    command = ["-m", "tests.process.hot_second.worker", *arguments]
                    self._start(Child(command, settings.folder / f"{name}.err"), stack)
                await self._watch(client)
        report.broken = self._books.verdict([])
        report.counts = dict(self._books.counts)
        report.steps = self._server.steps()
        return report

    def _start(self, child: Child, stack: ExitStack) -> None:
        stack.callback(child.kill)
        child.start()

    async def _store(self, client: Client) -> None:
        """What the other queue gets is due all the time, what the hot one gets within one second."""
        settings, report = self._settings, self._report
        for at in range(0, settings.tasks, _STORE_AT_ONCE):
            numbers = range(at, min(at + _STORE_AT_ONCE, settings.tasks))
            items = [(_payload(n), _moment(report.hot_ms + n % 1000)) for n in numbers]
            self._note(numbers, await client.schedule_many(HOT, items))
        start_ms = report.hot_ms - int(settings.lead_s * 1000)
        count = int((settings.lead_s + settings.window_s) * settings.other_rate)
        numbers = range(settings.tasks, settings.tasks + count)
        step = 1000 / settings.other_rate
        others = [(_payload(n), _moment(start_ms + int(step * at))) for at, n in enumerate(numbers)]
        self._note(numbers, await client.schedule_many(OTHER, others))

    def _note(self, numbers: Iterable[int], tasks: Iterable[Task]) -> None:
        pairs = zip(numbers, tasks, strict=True)
        self._books.take(Line(Kind.SCHEDULE, _OK, n, task.fire_at_ms, 0, 0, 0) for n, task in pairs)

    async def _watch(self, client: Client) -> None:
        deadline_ms = self._report.hot_ms + self._settings.patience_s * 1000
        said = 0
        while now_ms() < deadline_ms and self._books.counts["arrived"] < self._books.counts["scheduled"]:
            self._read()
            info = await client.server_info()
            self._report.used_bytes.append(info.memory_used_bytes)
            self._report.pss_bytes.append(memory_of(self._server.pid)[0])
            if len(self._report.hot) // 100_000 > said:
                said = len(self._report.hot) // 100_000
                self._say(
                    f"{len(self._report.hot):,} of the hot second have arrived, {len(self._report.other):,} others"
                )
            await asyncio.sleep(_LOOK_S)

    def _read(self) -> None:
        for name, reader in self._readers.items():
            lines = list(reader.read())
            self._books.take(lines)
            seen = self._report.other if name == OTHER else self._report.hot
            seen += [(line.fire_at_ms, line.at_ms) for line in lines]


def _payload(number: int) -> bytes:
    return b"%0*d" % (_PAYLOAD_BYTES, number)


def _moment(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


def run(settings: Settings, say: Callable[[str], None]) -> Report:
    return asyncio.run(HotSecond(settings, say).play())
