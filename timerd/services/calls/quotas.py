"""Quotas of namespaces: what is over one is refused before anything is written. Of the rates one instance counts what
it takes in itself; what a namespace has is counted by all of them (services/engine/namespace_use.py)."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import Protocol

from timerd.core.regulation import Excess, QuotaMeter, Use
from timerd.model.errors import QuotaExceeded, StartupError
from timerd.model.quotas import InUse, Quota
from timerd.services.calls.quotas_file import OTHERS, read_quotas
from timerd.services.engine.verbs import NewTasks
from timerd.services.transport.watched_files import WatchedFile

log = logging.getLogger(__name__)
LOOK_EVERY_S = 1.0
# Namespaces of which something is remembered: those that owe nothing are forgotten beyond it.
MANY_METERS = 1_000
_NOTHING = InUse(0, 0)
_WORDS = {"pending_tasks": "pending tasks", "stored_bytes": "bytes of payloads stored"}
_WHAT_TO_DO = {
    "pending_tasks": "Wait until tasks are done, or cancel some",
    "stored_bytes": "Schedule smaller payloads, or wait: they go when the history of their day is no longer kept",
}


class UseOf(Protocol):
    """What namespaces have; the engine's `use` does."""

    async def of(self, namespace: str) -> InUse: ...

    def known(self) -> Mapping[str, InUse]:
        """Of those that were asked for."""
        ...


class NoUse:
    async def of(self, _namespace: str) -> InUse:
        return _NOTHING

    def known(self) -> Mapping[str, InUse]:
        return {}


NO_USE = NoUse()


class Quotas:
    """As the file says; without one there are none. `taken` and `refused` count by (namespace, what), those that share
    the table of all others together: names that callers make up are no labels."""

    def __init__(self, path: Path | None = None, use: UseOf = NO_USE) -> None:
        """Raises StartupError."""
        self._file = WatchedFile(path) if path is not None else None
        self._quotas = read_quotas(path) if path is not None else {}
        self._use = use
        # What was let in and is being stored.
        self._promised: defaultdict[str, InUse] = defaultdict(lambda: _NOTHING)
        self._looked_s = monotonic()
        self._meters: dict[str, QuotaMeter] = {}
        self.taken: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[tuple[str, str]] = Counter()

    def has(self, namespace: str) -> bool:
        """Whether a call of this namespace is counted."""
        self._look()
        return namespace in self._quotas or OTHERS in self._quotas

    async def take(self, tasks: NewTasks, now_ms: int) -> None:
        """One call with these tasks. Raises QuotaExceeded, and then takes nothing."""
        self._look()
        namespace = tasks.namespace
        table = namespace if namespace in self._quotas else OTHERS
        quota = self._quotas.get(table)
        if quota is None:
            return
        use = Use(1, len(tasks.rows), _size_bytes(tasks))
        if quota.bounds_use:
            in_use = await self._use.of(namespace)
            self._refuse_over(table, namespace, quota, in_use, InUse(use.tasks, use.bytes))
        excess = self._meter(namespace, quota, now_ms).take(use, now_ms)
        if excess is not None:
            self.refused[table, excess.what] += 1
            raise _refusal(namespace, excess)
        self.taken.update({(table, what): amount for what, amount in zip(Use._fields, use, strict=True)})

    def _refuse_over(self, table: str, namespace: str, quota: Quota, in_use: InUse, more: InUse) -> None:
        limits = InUse(quota.pending_tasks, quota.stored_bytes)
        each = zip(InUse._fields, limits, in_use, self._promised[namespace], more, strict=True)
        for what, limit, has, promised, asked in each:
            if limit and asked and has + promised + asked > limit:
                self.refused[table, what] += 1
                raise _full(namespace, what, limit, has + promised, asked)

    @contextlib.contextmanager
    def promised(self, tasks: NewTasks) -> Iterator[None]:
        """While these are stored, so that calls that come at once do not share the same room."""
        namespace = tasks.namespace
        quota = self._quotas.get(namespace) or self._quotas.get(OTHERS)
        if quota is None or not quota.bounds_use:
            yield
            return
        more = InUse(len(tasks.rows), _size_bytes(tasks))
        self._promise(namespace, more)
        try:
            yield
        finally:
            self._promise(namespace, InUse(-more.pending_tasks, -more.stored_bytes))

    def _promise(self, namespace: str, more: InUse) -> None:
        before = self._promised[namespace]
        after = InUse(before.pending_tasks + more.pending_tasks, before.stored_bytes + more.stored_bytes)
        if after == _NOTHING:
            del self._promised[namespace]
        else:
            self._promised[namespace] = after

    def in_use(self) -> dict[tuple[str, str], int]:
        """Of namespaces with a table of their own, as far as calls have asked."""
        known = [(name, use) for name, use in self._use.known().items() if name in self._quotas]
        return {(name, what): amount for name, use in known for what, amount in use._asdict().items()}

    def _meter(self, namespace: str, quota: Quota, now_ms: int) -> QuotaMeter:
        found = self._meters.get(namespace)
        if found is None or found.quota != quota:
            if len(self._meters) >= MANY_METERS:
                self._meters = {name: each for name, each in self._meters.items() if not each.is_rested(now_ms)}
            found = self._meters[namespace] = QuotaMeter(quota)
        return found

    def _look(self) -> None:
        """Takes the file up where it is another one; a wrong one changes nothing."""
        if self._file is None or monotonic() < self._looked_s + LOOK_EVERY_S:
            return
        self._looked_s = monotonic()
        if not self._file.has_changed():
            return
        try:
            self._quotas = read_quotas(self._file.path)
        except StartupError as error:
            log.error("The quotas changed and are not taken up; the old ones stay in force. %s", error)
        else:
            log.info("The quotas were taken up anew from %s", self._file.path)


def _size_bytes(tasks: NewTasks) -> int:
    return int(tasks.rows.columns["length"].sum())


def _refusal(namespace: str, excess: Excess) -> QuotaExceeded:
    return QuotaExceeded(
        f"The namespace {namespace!r} may schedule {excess.per_s:,} {excess.what} a second here, and has: nothing of "
        f"this call was stored. There is room for it in {excess.wait_ms:,} ms. Schedule more slowly, or ask who "
        "operates the server for a larger quota.",
        "QUOTA",
        field="namespace",
        retry_after_ms=excess.wait_ms,
    )


def _full(namespace: str, what: str, limit: int, has: int, asked: int) -> QuotaExceeded:
    """Nobody knows when there is room, so there is no time to wait for."""
    return QuotaExceeded(
        f"The namespace {namespace!r} may have {limit:,} {_WORDS[what]}, has {has:,}, and this call asks for "
        f"{asked:,} more: nothing of it was stored. {_WHAT_TO_DO[what]}; or ask who operates the server for a larger "
        "quota.",
        "QUOTA",
        field="namespace",
    )
