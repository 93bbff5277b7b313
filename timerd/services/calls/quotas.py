"""Quotas of namespaces: what is over one is refused before anything is written. One instance counts what it takes in
itself."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from time import monotonic

from timerd.core.regulation import Excess, QuotaMeter, Use
from timerd.model.errors import QuotaExceeded, StartupError
from timerd.model.quotas import Quota
from timerd.services.calls.quotas_file import OTHERS, read_quotas
from timerd.services.engine.verbs import NewTasks
from timerd.services.transport.watched_files import WatchedFile

log = logging.getLogger(__name__)
LOOK_EVERY_S = 1.0
# Namespaces of which something is remembered: those that owe nothing are forgotten beyond it.
MANY_METERS = 1_000


class Quotas:
    """As the file says; without one there are none. `taken` and `refused` count by (namespace, what), those that share
    the table of all others together: names that callers make up are no labels."""

    def __init__(self, path: Path | None) -> None:
        """Raises StartupError."""
        self._file = WatchedFile(path) if path is not None else None
        self._quotas = read_quotas(path) if path is not None else {}
        self._looked_s = monotonic()
        self._meters: dict[str, QuotaMeter] = {}
        self.taken: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[tuple[str, str]] = Counter()

    def take(self, tasks: NewTasks, now_ms: int) -> None:
        """One call with these tasks. Raises QuotaExceeded, and then takes nothing."""
        self._look()
        namespace = tasks.namespace
        table = namespace if namespace in self._quotas else OTHERS
        quota = self._quotas.get(table)
        if quota is None:
            return
        use = Use(1, len(tasks.rows), int(tasks.rows.columns["length"].sum()))
        excess = self._meter(namespace, quota, now_ms).take(use, now_ms)
        if excess is not None:
            self.refused[table, excess.what] += 1
            raise _refusal(namespace, excess)
        self.taken.update({(table, what): amount for what, amount in zip(Use._fields, use, strict=True)})

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


def _refusal(namespace: str, excess: Excess) -> QuotaExceeded:
    return QuotaExceeded(
        f"The namespace {namespace!r} may schedule {excess.per_s:,} {excess.what} a second here, and has: nothing of "
        f"this call was stored. There is room for it in {excess.wait_ms:,} ms. Schedule more slowly, or ask who "
        "operates the server for a larger quota.",
        "QUOTA",
        field="namespace",
        retry_after_ms=excess.wait_ms,
    )
