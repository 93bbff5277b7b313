"""Calls of one task each as columns, as the API gives them to the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from timerd.model.columns import pieces
from timerd.model.identity import PREFIX_BYTES
from timerd.model.rows import RowGroup
from timerd.services.engine.verbs import NewTasks, StoredTasks


@dataclass(slots=True)
class NewSingles:
    """Row n of `rows` is the task of call n, and has a prefix of its own, which no other has: position = fire_at = what
    was asked, index 0, version 0, no key. `request_times_ms` (n,) and `is_delayed` (n,): as NewTasks has them. All came
    at `now_ms`."""

    rows: RowGroup
    request_times_ms: npt.NDArray[np.int64]
    is_delayed: npt.NDArray[np.bool_]
    now_ms: int

    def __len__(self) -> int:
        return len(self.rows)

    def prefixes(self) -> list[bytes]:
        """In the order of the rows."""
        return pieces(self.rows.prefixes.take(self.rows.columns["prefix"]).tobytes(), PREFIX_BYTES)

    def select(self, which: npt.NDArray[np.intp]) -> NewSingles:
        """Some of the calls."""
        return NewSingles(self.rows.select(which), self.request_times_ms[which], self.is_delayed[which], self.now_ms)

    def one(self, n: int) -> NewTasks:
        """As the call alone gives it."""
        rows, made_ms = self.rows.one(n), int(self.request_times_ms[n])
        asked_ms = min(made_ms, self.now_ms) if made_ms else self.now_ms
        since_ms = 0 if made_ms else self.now_ms
        delayed = (0,) if self.is_delayed[n] else ()
        prefix, namespace = rows.prefixes.tobytes(), rows.templates[0].namespace
        return NewTasks(namespace, prefix, rows, {}, asked_ms, made_ms, delayed, since_ms)


class HearsSingles(Protocol):
    """Who is told what became of calls that came as columns, by their numbers: of each once."""

    def stored(self, numbers: Sequence[int], task_ids: Sequence[str]) -> None:
        """Their tasks were stored as they were asked for."""
        ...

    def ended(self, number: int, tasks: NewTasks, stored: StoredTasks | Exception) -> None:
        """It went on by itself, and `tasks` says when its task is due: a repeat's may be another instant."""
        ...

    def failed(self, numbers: Sequence[int], error: Exception) -> None: ...
