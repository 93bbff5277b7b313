"""The processes of one run: a server under load, its callers, its workers. Faults act on them."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.process.children import Child, Holder, Server
from tests.process.clockstep import ClockStep
from tests.process.kill9.caller import QUEUES
from tests.process.kill9.watch import Open, Watch

_HERE = "tests.process.kill9"
HOLD_MS = (200, 2500)
# Short enough for a stop to outlast it, long enough for a busy machine not to.
LEASE_MS, EXTEND_MS = 3_000, 1_000
LONG_LEASE_MS = 30_000


class Stage:
    """`with_stops`: leases are short, so that a stopped worker loses what it has."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        far_ms: int,
        hold_ms: tuple[int, int] = HOLD_MS,
        *,
        with_stops: bool,
        clock: ClockStep | None,
        repeat_within_s: int,
    ) -> None:
        environment: Mapping[str, str] = clock.environment if clock is not None else {}
        self.clock = clock
        self.folder = folder
        self._hold_ms = hold_ms
        self.server = Server(folder, environment=environment)
        self.watch = Watch(folder / "asked.log")
        target = self.server.address
        logs = (str(folder / "caller.log"), str(folder / "asked.log"))
        words = [
            "-m",
            f"{_HERE}.caller",
            target,
            *logs,
            str(seed),
            str(far_ms),
            "--repeat-within-s",
            str(repeat_within_s),
        ]
        self.caller = Child(words, folder / "caller.err")
        self.sdk = Child(["-m", f"{_HERE}.sdk_worker", target, QUEUES[1], str(folder / "sdk.log")], folder / "sdk.err")
        lease_ms = LEASE_MS if with_stops else LONG_LEASE_MS
        self._options = ("--seed", str(seed), "--lease-ms", str(lease_ms), "--extend-ms", str(EXTEND_MS))
        self._names: list[str] = []
        # Those that live, with what each has in hand.
        self.holders: dict[Holder, Open] = {}
        for _ in range(2):
            self.add_holder()

    def add_holder(self) -> Holder:
        """A log of its own: who is killed may leave half a line."""
        name = f"holder-{len(self._names) + 1}"
        self._names.append(name)
        holder = Holder(self.folder, name, self.server.address, QUEUES[0], self._hold_ms, *self._options)
        self.holders[holder] = self.watch.add(self.folder / f"{name}.log")
        return holder

    @property
    def longest_hold_s(self) -> float:
        return self._hold_ms[1] / 1000

    @property
    def worker_logs(self) -> list[Path]:
        return [self.folder / f"{name}.log" for name in (*self._names, "sdk")]

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            for child in (self.server, *self.holders, self.sdk, self.caller):
                child.start()
            yield
        finally:
            for child in (self.caller, self.sdk, *self.holders, self.server):
                child.kill()

    def let_workers_catch_up(self) -> None:
        """Until each worker has read whatever was sent to it before this call; those that are stopped go on."""
        for holder in self.holders:
            holder.signal(signal.SIGCONT)
        for holder in self.holders:
            holder.hear()
