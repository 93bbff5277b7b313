"""The processes of one run: three instances on one Cassandra, the roads between them, callers and workers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tests.chaos.judging import HandedOver
from tests.chaos.road import Roads
from tests.engines.cassandra_node import CassandraNode
from tests.engines.finding import Found
from tests.engines.instances import Instance, end_all, start_all
from tests.engines.redis_server import RedisServer
from tests.process.children import Child, Holder
from tests.process.clockstep import ClockStep
from tests.process.kill9.caller import QUEUES
from tests.process.kill9.watch import Open, Watch
from timerd.demo.processes import free_port

LOST_LEASE = "it drops what it held"
NAMES = ("one", "two", "three")
CALLERS = 3
HOLDERS = 3
_KILL9 = "tests.process.kill9"
# No caller schedules so many.
_NUMBERS = 10_000_000
_LEASE_MS = 30_000


_HANDED_OVER = re.compile(r"Partition\(scope=(\d+), bucket_ms=(\d+), shard=(\d+)\) is handed over to ")


def is_lapse(line: str) -> bool:
    return line.startswith("{") and LOST_LEASE in line


def handed_over_of(text: str) -> Iterator[HandedOver]:
    """What an instance's log says of the partitions that it gave away."""
    for line in text.splitlines():
        if line.startswith("{") and (found := _HANDED_OVER.search(line)):
            at_ms = datetime.fromisoformat(json.loads(line)["time"]).timestamp() * 1000
            yield HandedOver(".".join(found.groups()), at_ms)


@dataclass(frozen=True, slots=True)
class Setting:
    folder: Path
    found: Found
    keyspace: str
    seed: int
    # Where the store is processes of ours.
    nodes: tuple[CassandraNode, ...] = ()
    redis: RedisServer | None = None
    clock: ClockStep | None = None
    ttl_ms: int = 3_000
    shards: int = 6
    far_ms: int = 8_000
    hold_ms: tuple[int, int] = (200, 2_500)
    # So many percent of the tasks are cancelled, so many moved, so many due after the current bucket.
    changed_percent: int = 5
    # After the first answer to a call, until it is made again.
    repeat_within_s: int = 10
    next_bucket_percent: int = 0

    @property
    def has_roads_to_store(self) -> bool:
        """The nodes of a ring tell clients where the others are."""
        return len(self.nodes) < 2


class Seat:
    """One instance: the process, its own road to the store, and the road on which the others reach it."""

    def __init__(self, name: str, setting: Setting, roads: Roads) -> None:
        self.name = name
        self.to_store = roads.to(setting.found.address, setting.found.port)
        port = free_port()
        self.to_it = roads.to("127.0.0.1", port)
        lease = (f"heartbeat={setting.ttl_ms // 5}ms", f"lease_ttl={setting.ttl_ms}ms")
        options = ["--advertise", f"127.0.0.1:{self.to_it.port}", "--shards", str(setting.shards)]
        options += [word for each in lease for word in ("--set", each)]
        if setting.redis is not None:
            options += ["--redis", setting.redis.url]
        found = setting.found
        if setting.has_roads_to_store:
            found = found._replace(address="127.0.0.1", port=self.to_store.port)
        environment = setting.clock.environment if setting.clock is not None and name == NAMES[0] else {}
        self.process = Instance(
            name, found, setting.keyspace, setting.folder, *options, port=port, environment=environment
        )

    @property
    def address(self) -> str:
        return self.process.address

    def said(self, pattern: str, since: int = 0) -> int:
        """How often its log says so after the first `since` characters."""
        return len(re.findall(pattern, self.process.errors()[since:]))


class Cluster:
    """Three instances, and the roads that lead to them. `watch` follows what callers ask in the files `asked`."""

    # A worker that a fault may take away.
    sdk: Child

    def __init__(self, setting: Setting, asked: Sequence[Path]) -> None:
        self.setting = setting
        self.roads = Roads()
        self.seats = {name: Seat(name, setting, self.roads) for name in NAMES}
        self.watch = Watch(*asked)

    def target(self, first: int) -> str:
        """All instances, another one first for each: who loses one goes on with the next."""
        addresses = [seat.address for seat in self.seats.values()]
        first %= len(addresses)
        return "ipv4:" + ",".join(addresses[first:] + addresses[:first])

    def sdk_again(self) -> None:
        """Another worker in the place of the one that was killed."""
        raise NotImplementedError

    def log_ends(self) -> dict[str, int]:
        return {name: len(seat.process.errors()) for name, seat in self.seats.items()}

    def said(self, pattern: str, since: dict[str, int], names: Sequence[str] = NAMES) -> int:
        return sum(self.seats[name].said(pattern, since[name]) for name in names)

    def lapses_ms(self) -> list[float]:
        """When an instance said that its lease was over, also where nobody had done anything to it: on a machine that
        is too busy it is paused as if by SIGSTOP."""
        return [
            datetime.fromisoformat(line["time"]).timestamp() * 1000
            for seat in self.seats.values()
            for line in map(json.loads, filter(is_lapse, seat.process.errors().splitlines()))
        ]

    @contextmanager
    def instances(self) -> Iterator[None]:
        processes = [seat.process for seat in self.seats.values()]
        try:
            start_all(processes)
            yield
        finally:
            end_all(processes)
            self.roads.close()


class CalledCluster(Cluster):
    """With callers of single tasks."""

    caller_module = f"{_KILL9}.caller"

    def __init__(self, setting: Setting) -> None:
        asked = [setting.folder / f"asked-{n}.log" for n in range(CALLERS)]
        super().__init__(setting, asked)
        self.caller_logs = [setting.folder / f"caller-{n}.log" for n in range(CALLERS)]
        self.callers = [self._caller(n, asked[n]) for n in range(CALLERS)]

    def _caller(self, n: int, asked: Path) -> Child:
        setting, log = self.setting, self.caller_logs[n]
        words = [
            "-m",
            self.caller_module,
            self.target(n),
            str(log),
            str(asked),
            str(setting.seed + n),
            str(setting.far_ms),
        ]
        options = {
            "--first": n * _NUMBERS,
            "--changed-percent": setting.changed_percent,
            "--next-bucket-percent": setting.next_bucket_percent,
            "--repeat-through": self.target(n + 1),
            "--repeat-within-s": setting.repeat_within_s,
        }
        more = [str(word) for option in options.items() for word in option]
        return Child([*words, *more], setting.folder / f"caller-{n}.err")

    def tell(self, what: str, count: int) -> None:
        """To all callers, of all together so many."""
        for caller in self.callers:
            caller.tell(f"{what} {-(-count // CALLERS)}")

    def handed_over(self) -> list[HandedOver]:
        return [each for seat in self.seats.values() for each in handed_over_of(seat.process.errors())]


class Stage(CalledCluster):
    """With callers and workers of single tasks."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.worker_logs: list[Path] = []
        self.holders: dict[Holder, Open] = {}
        for _ in range(HOLDERS):
            self.add_holder()
        self.sdk = self._sdk()

    def _log(self, kind: str) -> Path:
        """One for each process: who is killed may leave half a line."""
        log = self.setting.folder / f"{kind}-{len(self.worker_logs) + 1}.log"
        self.worker_logs.append(log)
        return log

    def add_holder(self) -> Holder:
        log, setting = self._log("holder"), self.setting
        options = ("--seed", str(setting.seed), "--lease-ms", str(_LEASE_MS), "--extend-ms", "1000")
        target = self.target(len(self.worker_logs))
        holder = Holder(setting.folder, log.stem, target, QUEUES[0], setting.hold_ms, *options)
        self.holders[holder] = self.watch.add(log)
        return holder

    def _sdk(self) -> Child:
        log = self._log("sdk")
        words = ["-m", f"{_KILL9}.sdk_worker", self.target(len(self.worker_logs)), QUEUES[1], str(log)]
        return Child(words, log.with_suffix(".err"))

    def sdk_again(self) -> None:
        self.sdk = self._sdk()
        self.sdk.start()

    @contextmanager
    def running(self) -> Iterator[None]:
        with self.instances():
            try:
                for child in (*self.holders, self.sdk, *self.callers):
                    child.start()
                yield
            finally:
                for child in (*self.callers, self.sdk, *self.holders):
                    child.kill()
