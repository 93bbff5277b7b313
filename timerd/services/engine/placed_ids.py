"""The ids of a stored message, composed when they are asked for: a batch that is answered by its Placement needs
few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from timerd.core.protocol import Inserted
from timerd.model.identity import TaskId, mac_of, macs_of
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of
from timerd.model.rows import RowGroup
from timerd.services.engine.verbs import NewTasks

_NONE: Mapping[int, int] = {}


class PlacedIds(Sequence[TaskId]):
    """`positions_ms` (n,): where the rows of one message live, `shards`: the shard of each of their buckets, `others`:
    of rows that are in another one."""

    def __init__(
        self,
        secret: bytes,
        prefix: bytes,
        rows: RowGroup,
        positions_ms: npt.NDArray[np.int64],
        shards: Mapping[int, int],
        others: Mapping[int, int] = _NONE,
    ) -> None:
        self.positions_ms = positions_ms
        self._secret = secret
        self._prefix = prefix
        self._rows = rows
        self._shards = shards
        self._others = others
        self._macs: dict[tuple[Partition, int, int], bytes] = {}
        # Those that were asked for: a task with a key asks for its id three times.
        self._known: dict[int, TaskId] = {}

    @property
    def is_uniform(self) -> bool:
        """Whether `homes` says it all."""
        return not self._others

    def homes(self) -> tuple[Mapping[int, int], bytes]:
        """The shard of each bucket, and the macs of all, of a message whose tasks have one template."""
        template = self._rows.template_of(0)
        shards, ordered = self._shards, sorted(self._shards)
        if ordered != list(shards):
            shards = {bucket_ms: shards[bucket_ms] for bucket_ms in ordered}
        macs = macs_of(self._secret, template.namespace, self._prefix, shards, template.scope, template.priority)
        return shards, b"".join(macs)

    def __len__(self) -> int:
        return len(self.positions_ms)

    @overload
    def __getitem__(self, row: int) -> TaskId: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[TaskId]: ...
    def __getitem__(self, row: int | slice) -> TaskId | Sequence[TaskId]:
        if isinstance(row, slice):
            return [self[n] for n in range(*row.indices(len(self)))]
        known = self._known.get(row)
        if known is None:
            known = self._known[row] = self._composed(row)
        return known

    def _composed(self, row: int) -> TaskId:
        position_ms = int(self.positions_ms[row])
        template = self._rows.template_of(row)
        bucket_ms = bucket_of(position_ms)
        home = Partition(TIME_SCOPE, bucket_ms, self._others.get(row, self._shards[bucket_ms]))
        at = (home, template.scope, template.priority)
        mac = self._macs.get(at)
        if mac is None:
            mac = mac_of(self._secret, template.namespace, self._prefix, home, template.scope, template.priority)
            self._macs[at] = mac
        item = int(self._rows.columns["index"][row])
        return TaskId(position_ms, home.shard, template.scope, template.priority, self._prefix, item, mac)


def homes_after(
    positions_ms: npt.NDArray[np.int64],
    placed_ms: npt.NDArray[np.int64],
    shards: Mapping[int, int],
    of_keys: Mapping[int, int] = _NONE,
) -> tuple[dict[int, int], dict[int, int]]:
    """Of rows that may have been written again elsewhere, which they are in the shard of their first place: the shard
    of each bucket, and the rows that have another one, as those of `of_keys` do."""
    homes: dict[int, int] = {}
    others = dict(of_keys)
    stayed = np.flatnonzero(placed_ms == positions_ms)
    for bucket_ms in np.unique(placed_ms[stayed] - placed_ms[stayed] % BUCKET_MS).tolist():
        homes[bucket_ms] = shards[bucket_ms]
    for row in np.flatnonzero(placed_ms != positions_ms).tolist():
        shard = of_keys.get(row, shards[bucket_of(int(positions_ms[row]))])
        if homes.setdefault(bucket_of(int(placed_ms[row])), shard) != shard:
            others[row] = shard
    return homes, others


def places_after(tasks: NewTasks, first_ms: npt.NDArray[np.int64], done: Inserted) -> npt.NDArray[np.int64]:
    """Where the rows live in the end: the same array where none was written again."""
    if not done.moved:
        return first_ms
    keys = zip(first_ms.tolist(), tasks.rows.digests(), strict=True)
    return np.array([done.moved.get(key, key[0]) for key in keys], np.int64)
