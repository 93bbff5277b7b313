"""The ids of a stored message, composed when they are asked for: a batch that is answered by its Placement needs
few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from timerd.model.identity import TaskId, mac_of, macs_of
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.rows import RowGroup


class PlacedIds(Sequence[TaskId]):
    """`positions_ms` (n,): where the rows of one message live, `shards`: the shard of each of
    their buckets."""

    def __init__(
        self, secret: bytes, prefix: bytes, rows: RowGroup, positions_ms: npt.NDArray[np.int64], shards: dict[int, int]
    ) -> None:
        self.positions_ms = positions_ms
        self._secret = secret
        self._prefix = prefix
        self._rows = rows
        self._shards = shards
        self._macs: dict[tuple[int, int, int], bytes] = {}

    def homes(self) -> tuple[Mapping[int, int], bytes]:
        """The shard of each bucket, and the macs of all, of a message whose tasks have one template."""
        template = self._rows.template_of(0)
        shards = dict(sorted(self._shards.items()))
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
        position_ms = int(self.positions_ms[row])
        template = self._rows.template_of(row)
        home = Partition(TIME_SCOPE, bucket_of(position_ms), self._shards[bucket_of(position_ms)])
        at = (home.bucket_ms, template.scope, template.priority)
        mac = self._macs.get(at)
        if mac is None:
            mac = mac_of(self._secret, template.namespace, self._prefix, home, template.scope, template.priority)
            self._macs[at] = mac
        item = int(self._rows.columns["index"][row])
        return TaskId(position_ms, home.shard, template.scope, template.priority, self._prefix, item, mac)
