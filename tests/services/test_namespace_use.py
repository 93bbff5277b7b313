"""What namespaces have pending and stored: over instances, over a restart, and when a day is over."""

from __future__ import annotations

import numpy as np
import pytest

from timerd.adapters.memory import MemoryStore
from timerd.model.errors import StoreUnavailable
from timerd.model.partition import TIME_SCOPE, Partition
from timerd.model.quotas import InUse
from timerd.model.rows import PREFIX, ROW, RowGroup
from timerd.model.storage import Append
from timerd.model.task import Template
from timerd.services.engine.namespace_use import DAY_MS, NamespaceUse

NOW_MS = 20_000 * DAY_MS + 3_600_000
HERE = Partition(TIME_SCOPE, NOW_MS, 0)


def rows(*positions_ms: int, size: int = 5) -> RowGroup:
    columns = np.zeros(len(positions_ms), ROW)
    columns["position_ms"], columns["length"] = positions_ms, size
    columns["index"] = np.arange(len(columns))
    return RowGroup(columns, np.zeros(1, PREFIX), [Template("shop", "mails")], bytes(size * len(columns)), [])


class Now:
    ms = NOW_MS

    def __call__(self) -> int:
        return self.ms


async def test_instances_add_up_what_all_of_them_have_written() -> None:
    store, now = MemoryStore(), Now()
    one, two = NamespaceUse(store, now), NamespaceUse(store, now)
    assert await one.of("shop") == await two.of("shop") == InUse(0, 0)
    one.add(rows(NOW_MS, NOW_MS + DAY_MS, NOW_MS + 400 * DAY_MS))
    two.add(rows(NOW_MS + DAY_MS))
    assert (await one.of("shop"), await two.of("shop")) == (InUse(3, 15), InUse(1, 5))
    for each in (one, two, one):
        await each.flush()
    assert await one.of("shop") == await two.of("shop") == await NamespaceUse(store, now).of("shop") == InUse(4, 20)


async def test_a_day_counts_as_long_as_it_has_a_bucket_that_is_open() -> None:
    """Then what was not counted when it ended is made good."""
    store, now = MemoryStore(), Now()
    use = NamespaceUse(store, now)
    await store.append([Append(((HERE, rows(NOW_MS)),))])
    use.add(rows(NOW_MS))
    await use.flush()
    now.ms += 3 * DAY_MS
    assert await use.of("shop") == InUse(1, 5)
    await store.finish_bucket(HERE.scope, HERE.bucket_ms, finished=True)
    await use.flush()
    assert await use.of("shop") == InUse(0, 5)
    await store.drop(HERE)
    await use.flush()
    assert await use.of("shop") == InUse(0, 0)


async def test_a_store_that_was_away_loses_nothing_that_was_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    use = NamespaceUse(store, Now())
    use.add(rows(NOW_MS))

    async def away(_: object) -> None:
        raise StoreUnavailable("It is away.", "STORE_DOWN")

    with monkeypatch.context() as patched:
        patched.setattr(store, "save_estimates", away)
        with pytest.raises(StoreUnavailable):
            await use.flush()
    await use.flush()
    assert await NamespaceUse(store, Now()).of("shop") == InUse(1, 5)


async def test_what_an_instance_makes_for_itself_counts_for_nobody() -> None:
    use = NamespaceUse(MemoryStore(), Now())
    own = rows(NOW_MS)
    use.add(RowGroup(own.columns, own.prefixes, [Template("(canary)", "(canary)")], own.payloads, []))
    assert await use.of("(canary)") == InUse(0, 0)
