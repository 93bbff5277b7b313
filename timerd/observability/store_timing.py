"""How long a store takes and what it refuses, seen from outside: the same store with a stop-watch around each call.

Calls are made per batch, never per task, so the watch costs a microsecond where the call costs a hundred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any, cast

from timerd.core.dispatch import Histogram
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.storage import CasStatus
from timerd.ports import Store

BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
READS = (
    *("scan", "stretch", "find", "settled", "catalogue", "dead", "get_dead_letters", "estimates", "facts"),
    *("read", "look", "find_entries", "list_entries"),
)
WRITES = (
    "append",
    "mark",
    "mark_and_look",
    "settle",
    "drop",
    "finish_bucket",
    "put_dead_letters",
    "take_dead_letters",
    "save_estimates",
    "cas",
    "write_entries",
    "remove_entries",
)
StoreCall = Callable[..., Awaitable[Any]]


class StoreTimes:
    """`failed`: (call, unavailable | unknown | error) -> how often; `changes`: (register, status) -> how often a
    compare-and-set ended so."""

    def __init__(self) -> None:
        self.calls = {name: Histogram(BOUNDS_S) for name in (*READS, *WRITES)}
        self.failed: Counter[tuple[str, str]] = Counter()
        self.changes: Counter[tuple[str, str]] = Counter()

    def watch(self, store: Store) -> Store:
        """The same store, watched."""
        return cast(Store, _Watched(store, self))

    def timed(self, name: str, call: StoreCall) -> StoreCall:
        histogram, failed = self.calls[name], self.failed

        async def run(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever the call takes and gives
            began_s = perf_counter()
            try:
                return await call(*given, **named)
            except StoreUnavailable:
                failed[name, "unavailable"] += 1
                raise
            except StoreUnknown:
                failed[name, "unknown"] += 1
                raise
            except Exception:
                failed[name, "error"] += 1
                raise
            finally:
                histogram.add(perf_counter() - began_s)

        return run

    def counted(self, cas: StoreCall) -> StoreCall:
        changes = self.changes

        async def run(given: Any) -> Any:  # noqa: ANN401 - as above
            results = await cas(given)
            for change, result in zip(given, results, strict=True):
                changes[str(change.key.table), _STATUS[result.status]] += 1
            return results

        return run


_STATUS = {status: status.name.lower() for status in CasStatus}


class _Watched:
    def __init__(self, store: Store, times: StoreTimes) -> None:
        self._store = store
        for name in times.calls:
            setattr(self, name, times.timed(name, getattr(store, name)))
        self.cas: StoreCall = times.counted(self.cas)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what is not watched is the store's own
        return getattr(self._store, name)
