"""Places of rows of which something was said before they were due: that they end, or that a move asks for them.

Such a row stays in the due queue, which has no index. Once it is due it is looked for, and judged as if a worker had
asked for it: so it counts as due no longer, although its queue has no worker.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from timerd.core.due_queue import RowsAt, ties_of
from timerd.model.identity import DIGEST_BYTES, RowKey
from timerd.model.row_keys import RowKeys

_DIGEST = np.dtype(f"V{DIGEST_BYTES}")
_NEVER_MS = 1 << 62


class EarlyEnds:
    """24 bytes a row, until it is due. Some of the rows are not in memory, or in a worker's hands."""

    def __init__(self) -> None:
        self._positions_ms = array("q")
        self._digests = bytearray()
        self._first_ms = _NEVER_MS

    def note(self, key: RowKey) -> None:
        self._positions_ms.append(key.position_ms)
        self._digests += key.digest
        self._first_ms = min(self._first_ms, key.position_ms)

    def note_all(self, keys: Sequence[RowKey]) -> None:
        some = keys if isinstance(keys, RowKeys) else RowKeys.of(keys)
        if len(some):
            self._positions_ms.frombytes(np.ascontiguousarray(some.positions_ms, np.int64).tobytes())
            self._digests += np.ascontiguousarray(some.digests).tobytes()
            self._first_ms = min(self._first_ms, int(some.positions_ms.min()))

    def due(self, until_ms: int) -> RowsAt | None:
        """Those until then, which are noted no longer; None: there are none."""
        if self._first_ms > until_ms:
            return None
        positions_ms = np.frombuffer(self._positions_ms.tobytes(), np.int64)
        digests = np.frombuffer(bytes(self._digests), _DIGEST)
        is_due = positions_ms <= until_ms
        self._positions_ms, self._digests, self._first_ms = array("q"), bytearray(), _NEVER_MS
        self.note_all(RowKeys(positions_ms[~is_due], digests[~is_due]))
        return RowsAt(np.sort(positions_ms[is_due]), np.sort(ties_of(digests[is_due])))
