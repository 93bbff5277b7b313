"""What all client processes have in common: commands on stdin, one object of the peer's own client, honest clocks.

A task is 200 bytes of text that begin with its number and its due instant, so whoever receives it can tell both without
asking anybody. Tasks are made before the clock starts, and what was received is read after it stopped.
"""

from __future__ import annotations

import json
import math
import random
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, NamedTuple

from benchmarks.stats import summary

LOOK_EVERY_S = 0.02
# Where tasks are due that are there to be cancelled.
CANCEL_IN_MS, CANCEL_SPAN_MS = 1_800_000, 3_600_000
Answer = dict[str, Any]
# Payloads as the handler was given them.
Enter = Callable[[Sequence[str | bytes]], None]


class Task(NamedTuple):
    """What a peer is given to keep."""

    id: str
    due_ms: int
    payload: str


class Client(ABC):
    """A peer's client in one process. Each call returns when the peer has confirmed."""

    # Tasks in a message, unless that is swept.
    batch: ClassVar = 1_000

    def __init__(self, target: str, options: Mapping[str, Any]) -> None:
        self.target = target
        self.options = options

    @abstractmethod
    def store(self, tasks: Sequence[Task]) -> list[Any]:
        """One message of the peer's bulk path, or one task. Returns what each is cancelled by."""

    def cancel(self, ids: Sequence[Any]) -> int:
        """How many were taken back."""
        raise NotImplementedError("This peer takes nothing back by id.")

    @abstractmethod
    def consume(self, enter: Enter) -> None:
        """Until the process ends. `enter` is the user's handler."""

    @abstractmethod
    def count(self) -> int:
        """How many tasks the peer itself says that it keeps."""

    def arranged(self, tasks: Sequence[Task], from_ms: int, span_ms: int) -> Sequence[Task]:
        """Before loading: the tasks in the order in which they are to be stored."""
        return tasks

    def ready(self) -> None:  # noqa: B027 - most have nothing to do
        """After loading: what an operator would do now."""


def made(seed: int, first: int, count: int, from_ms: int, span_ms: int, payload_bytes: int) -> list[Task]:
    chance = random.Random(seed * 1_000_003 + first)
    tasks = []
    for number in range(first, first + count):
        due_ms = from_ms + chance.randrange(span_ms)
        filler = chance.randbytes((payload_bytes - 32) // 2).hex()
        tasks.append(Task(f"{seed}-{number}", due_ms, f"{number:016x}{due_ms:016x}{filler}"))
    return tasks


class Talk:
    """The commands, as the benchmark gives them."""

    def __init__(self, open_client: Callable[[str, Mapping[str, Any]], Client]) -> None:
        self._open = open_client
        self._seed = 0
        self._stored: list[Any] = []
        self._entered: list[tuple[int, Sequence[str | bytes]]] = []
        self._received = 0
        # Of several threads that count, one would overwrite another.
        self._counting = threading.Lock()

    def start(self, target: str, seed: int, options: Mapping[str, Any]) -> Answer:
        self._clients = [self._open(target, options) for _ in range(int(options.get("writers", 1)))]
        self._client, self._seed = self._clients[0], seed
        return {}

    def schedule(
        self, queue: str, count: int, from_ms: int, span_ms: int, payload_bytes: int, limit_s: float = 1e9
    ) -> Answer:
        """In messages, until all are stored or the time is over."""
        tasks: Sequence[Task] = made(self._seed, 0, count, from_ms, span_ms, payload_bytes)
        for each in self._clients:
            tasks = each.arranged(tasks, from_ms, span_ms)
        self._stored, begun = [], time.perf_counter()
        self._in_messages(tasks, lambda client, some: self._stored.extend(client.store(some)), begun + limit_s)
        seconds, ended_ms = time.perf_counter() - begun, time.time() * 1e3
        self._client.ready()
        return {"stored": len(self._stored), "seconds": seconds, "ended_ms": ended_ms}

    def single(
        self, queue: str, callers: int, start_ms: float, seconds: float, from_ms: int, span_ms: int, payload_bytes: int
    ) -> Answer:
        """One call after the other."""
        tasks = made(self._seed, 0, round(seconds * 30_000) + 100, from_ms, span_ms, payload_bytes)
        ended = _one_by_one(start_ms, seconds, tasks, lambda task: self._client.store([task]))
        return ended | {"stored": len(ended["waits_ms"])}

    def count(self, queue: str, from_ms: int, span_ms: int) -> Answer:
        """There is nothing else in the peer than what was stored."""
        return {"count": self._client.count()}

    def cancel_singles(self, start_ms: float, seconds: float) -> Answer:
        """What `schedule` has stored, one call after the other."""
        done: list[int] = []
        ended = _one_by_one(start_ms, seconds, self._stored, lambda one: done.append(self._client.cancel([one])))
        return ended | {"cancelled": sum(done), "asked": len(done)}

    def cancel(self) -> Answer:
        done: list[int] = []
        begun = time.perf_counter()
        self._in_messages(self._stored, lambda client, some: done.append(client.cancel(some)), math.inf)
        return {"cancelled": sum(done), "asked": len(self._stored), "seconds": time.perf_counter() - begun}

    def _in_messages(
        self, things: Sequence[Any], call: Callable[[Client, Sequence[Any]], object], end_s: float
    ) -> None:
        """Of `batch` things each, by as many connections as there are `writers`, none begun after `end_s`."""
        size = int(self._client.options.get("batch", self._client.batch))
        # A list's iterator gives each thread another one.
        messages = iter([things[first : first + size] for first in range(0, len(things), size)])

        def write(client: Client) -> None:
            for some in messages:
                call(client, some)
                if time.perf_counter() > end_s:
                    break

        with ThreadPoolExecutor(len(self._clients)) as pool:
            for each in [pool.submit(write, client) for client in self._clients]:
                each.result()

    def receive(self) -> Answer:
        """By as many connections as there are `consumers`."""
        more = int(self._client.options.get("consumers", 1)) - 1
        for client in [self._client, *(self._open(self._client.target, self._client.options) for _ in range(more))]:
            threading.Thread(target=client.consume, args=(self._enter,), daemon=True).start()
        return {}

    def _enter(self, payloads: Sequence[str | bytes]) -> None:
        self._entered.append((time.time_ns(), payloads))
        with self._counting:
            self._received += len(payloads)

    def collect(self, count: int, patience_s: float) -> Answer:
        seen, heard_s = -1, time.monotonic()
        while self._received < count and time.monotonic() < heard_s + patience_s:
            if self._received != seen:
                seen, heard_s = self._received, time.monotonic()
            time.sleep(LOOK_EVERY_S)
        entered, self._entered, self._received = self._entered, [], 0
        at_ns = [at for at, batch in entered for _ in batch]
        payloads = [payload for _, batch in entered for payload in batch]
        late_ms = [at / 1e6 - int(payload[16:32], 16) for at, payload in zip(at_ns, payloads, strict=True)]
        return summary(late_ms, [int(payload[:16], 16) for payload in payloads])


def _one_by_one(start_ms: float, seconds: float, given: Sequence[Any], call: Callable[[Any], object]) -> Answer:
    waits_ms: list[float] = []
    time.sleep(max(0.0, start_ms / 1e3 - time.time()))
    end_s = time.perf_counter() + seconds
    for one in given:
        begun = time.perf_counter()
        if begun > end_s:
            break
        call(one)
        waits_ms.append((time.perf_counter() - begun) * 1e3)
    return {"ended_ms": time.time() * 1e3, "waits_ms": waits_ms}


def obey(open_client: Callable[[str, Mapping[str, Any]], Client]) -> None:
    """Until stdin ends."""
    talk = Talk(open_client)
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(getattr(talk, command.pop("do"))(**command)), flush=True)
