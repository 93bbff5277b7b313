"""The store as one instance of several reaches it: over a network. What an instance has sent arrives although the
instance is stopped or killed meanwhile, perhaps late; who is cut off hears nothing, and does not know what was done.

As with quorums on a cluster of stores: rows are readable first, and the control rows that come with the answer are read
after that, on another way; a scan has no cursor; of a write of unknown outcome each part is there, comes late, or never
(replicas.py).
"""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

from tests.property.ordered_pages import cut
from tests.property.world import done
from tests.simulator.cluster.pausing import PausingLoop
from tests.simulator.cluster.replicas import Land, Replicas
from tests.simulator.faults import READS, Weather
from tests.simulator.repeats import held_up
from timerd.adapters.memory import MemoryStore
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.partition import Partition
from timerd.model.registers import Table, control_key
from timerd.model.storage import Append, Appended, Cas, CasResult, CasStatus, Found, Mark, Page
from timerd.model.store_traits import StoreTraits

# A driver waits so long for an answer.
TIMEOUT_MS = 2_000
# What takes something away is not simulated late: its time stamp is older than what came since.
AT_ONCE = ("drop", "take_dead_letters", "save_estimates")
DONE, UNAVAILABLE, NOT_DONE, NOT_TOLD = range(4)
Answer = asyncio.Future[Any]
WITH_CURSORS = StoreTraits(has_cursors=True, commit_is_cheap=True)
WITHOUT_CURSORS = StoreTraits(pages_in_order=True, commit_is_cheap=True)


class Trap(NamedTuple):
    """Something happens to the instance at the so-manieth step of a kind of call ("" = any, "control" = a change of a
    control row). `late_ms`: where that step is the sending, the request is held up on its way, as by a network that
    heals."""

    kind: str
    steps: int
    spring: Callable[[], None]
    late_ms: float = 0.0


class Listener(Protocol):
    """Hears what is done at the store, and what an instance is told of it."""

    def applied(self, changes: Sequence[Cas]) -> None: ...

    def refused(self, change: Cas) -> None: ...

    def written(self, messages: Sequence[Append], answers: Sequence[Appended]) -> None: ...


class RemoteStore:
    """All of `Store`, for one run of an instance."""

    def __init__(
        self,
        disk: MemoryStore,
        weather: Weather,
        loop: PausingLoop,
        replicas: Replicas,
        listener: Listener,
        traits: StoreTraits,
        page_rows: int,
    ) -> None:
        """`page_rows`: so many rows and marks has a page where there are no cursors; 0: all of them."""
        self.traits = traits
        self.is_cut = False
        self._page_rows = page_rows
        self.trap: Trap | None = None
        # How much later this instance hears what it has read.
        self.lag_ms = 0.0
        self._disk = disk
        self._weather = weather
        self._loop = loop
        self._replicas = replicas
        self._listener = listener

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Every method that has no place of its own here: one step at the store."""
        work: Callable[..., Coroutine[Any, Any, Any]] = getattr(self._disk, name)

        async def perform(*args: object, **named: object) -> Any:
            return await self._perform(name, lambda: done(work(*args, **named)), writes=name not in READS)

        setattr(self, name, perform)
        return perform

    async def close(self) -> None:
        """The store outlives its instances."""

    # -- calls that have more than one step, or an answer of their own --------------------------------------------

    async def append(self, messages: Sequence[Append]) -> Sequence[Appended]:
        parts = [partial(self._append_part, message, n) for message in messages for n in range(len(message.groups))]
        write = partial(self._disk.append, messages)
        written = await self._perform("append", lambda: done(write()), writes=True, parts=parts)
        partitions = [_partitions(message) for message in messages]
        try:
            work = partial(map, self._facts, messages, written, partitions)
            answers = list(await self._perform("facts", lambda: list(work())))
        except StoreUnavailable as error:
            raise StoreUnknown("Rows were written, but not what must be known of their partition.") from error
        self._listener.written(messages, answers)
        return answers

    def _append_part(self, message: Append, number: int) -> None:
        """Without the reply to a repeat, which a store of rows does not keep."""
        done(self._disk.append([Append((message.groups[number],))]))

    def _facts(self, message: Append, written: Appended, partitions: Sequence[Partition]) -> Appended:
        """What is true by now."""
        known = dict(zip(partitions, done(self._disk.read([control_key(p) for p in partitions])), strict=True))
        entries = done(self._disk.catalogue(None, -(1 << 62), 1 << 62))
        finishing = {(entry.scope, entry.bucket_ms) for entry in entries if entry.finishing}
        closing = [p for p in partitions if known[p] is None and (p.scope, p.bucket_ms) in finishing]
        asked = {p for p, _ in message.groups}
        controls = {p: control for p, control in known.items() if p in asked or control is not None}
        sources = written.sources if self.traits.has_cursors else {}
        return Appended(controls, sources, frozenset(closing), written.repeated)

    async def scan(
        self, partition: Partition, lo_ms: int, hi_ms: int, cursor: int, limit_bytes: int, *, keys_only: bool = False
    ) -> Page:
        if self.traits.has_cursors:
            work = partial(self._disk.scan, partition, lo_ms, hi_ms, cursor, limit_bytes, keys_only=keys_only)
            return await self._perform("scan", lambda: done(work()))  # type: ignore[no-any-return]
        work = partial(self._disk.scan, partition, lo_ms, hi_ms, 0, 1 << 40, keys_only=keys_only)
        page: Page = await self._perform("scan", lambda: done(work()))
        if self._page_rows:
            return cut(page, cursor, self._page_rows)
        return Page([replace(group, source=0) for group in page.groups], page.marks, 0, done=True)

    async def mark(self, marks: Sequence[Mark]) -> int:
        """Which of them are the first is not known without a read."""
        await self._perform("mark", lambda: done(self._disk.mark(marks)), writes=True)
        return 0

    async def find(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> Sequence[Found]:
        found: Sequence[Found] = await self._perform("find", lambda: done(self._disk.find(partition, keys)))
        if self.traits.has_cursors:
            return found
        return [Found(replace(each.rows, source=0), each.marks) for each in found]

    async def cas(self, changes: Sequence[Cas]) -> Sequence[CasResult]:
        """Never raises for an outcome."""
        try:
            kind = "control" if any(change.key.table is Table.CONTROL for change in changes) else ""
            results: Sequence[CasResult] = await self._perform(
                "cas", lambda: self._cas(changes), writes=True, kind=kind
            )
        except (StoreUnavailable, StoreUnknown):
            return [CasResult(CasStatus.UNKNOWN) for _ in changes]
        for change, result in zip(changes, results, strict=True):
            if result.status is CasStatus.REFUSED:
                self._listener.refused(change)
        return results

    def _cas(self, changes: Sequence[Cas]) -> Sequence[CasResult]:
        results = done(self._disk.cas(changes))
        self._listener.applied([c for c, r in zip(changes, results, strict=True) if r.status is CasStatus.APPLIED])
        return results

    # -- the way there and back -----------------------------------------------------------------------------------

    async def _perform(
        self, name: str, work: Callable[[], Any], *, writes: bool = False, parts: Sequence[Land] = (), kind: str = ""
    ) -> Any:
        """`parts`: of a write that may be done in pieces."""
        await held_up(name)
        answer: Answer = self._loop.create_future()
        late_ms = self._sprung(name, kind)
        landing = (parts or (work,)) if writes and name not in AT_ONCE else ()
        self._loop.later(late_ms + self._way_ms(name), partial(self._arrived, name, work, answer, writes, landing))
        if late_ms:
            # Whose driver is stopped with it, and looks first at what has come.
            self._loop.call_later(TIMEOUT_MS / 1000, self._back, answer, NOT_DONE, None, writes)
        return await answer

    def _way_ms(self, name: str) -> float:
        weather = self._weather
        slow_ms = weather.slow_ms.get(name, 0)
        slow_ms = weather.random.choice((0, slow_ms)) if slow_ms else 0
        return weather.random.choice(weather.delays_ms) + slow_ms + self._replicas.way_ms()

    def _arrived(
        self, name: str, work: Callable[[], Any], answer: Answer, writes: bool, landing: Sequence[Land]
    ) -> None:
        fate = self._weather.fate()
        if fate != DONE and not writes:
            fate = UNAVAILABLE
        if self.is_cut:
            fate = NOT_DONE if writes else UNAVAILABLE
        if not writes:
            self._replicas.read()
        result = work() if fate in (DONE, NOT_TOLD) else None
        if fate == NOT_DONE:
            self._replicas.missed(landing, TIMEOUT_MS)
        self._sprung(name)
        lag_ms = 0.0 if writes else self.lag_ms
        way_ms = TIMEOUT_MS if fate in (NOT_DONE, NOT_TOLD) or self.is_cut else self._way_ms(name) + lag_ms
        self._loop.later(way_ms, partial(self._back, answer, fate, result, writes))

    def _back(self, answer: Answer, fate: int, result: Any, writes: bool) -> None:
        if answer.done():
            return
        if fate == DONE and self.is_cut:
            fate = NOT_TOLD if writes else UNAVAILABLE
        if fate == DONE:
            answer.set_result(result)
        elif fate == UNAVAILABLE:
            self._weather.hits["store unavailable"] += 1
            answer.set_exception(StoreUnavailable("The store is away.", "STORE_UNAVAILABLE"))
        else:
            self._weather.hits["unknown: done" if fate == NOT_TOLD else "unknown: not done"] += 1
            answer.set_exception(StoreUnknown("The store did not say."))

    def _sprung(self, name: str, kind: str = "") -> float:
        """How much later a request is that is sent now."""
        trap = self.trap
        if trap is None or trap.kind not in ("", name, kind or name):
            return 0.0
        self.trap = trap._replace(steps=trap.steps - 1) if trap.steps > 1 else None
        if self.trap is not None:
            return 0.0
        trap.spring()
        return trap.late_ms


def _partitions(message: Append) -> list[Partition]:
    return [partition for partition, _ in (*message.groups, *(message.spread.parts() if message.spread else ()))]
