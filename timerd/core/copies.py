"""Rows that say the same task once more, at another position of the same partition.

A call that is repeated after an unknown outcome writes its tasks again where they are due by then (guarantee G2), and
there may be as many rows as there were tries. One of them is sent; the others wait with it and end as it does. Sent
beside it they would be one delivery with several rows, of which an ack ends one: the rest would hold the marks back,
and fire again when the partition has its next holder. The attempt does not matter: the row that is met late says the
first one, and the one that is open may be the second by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from timerd.model.identity import RowKey, generation_of
from timerd.model.rows import RowGroup
from timerd.model.settle import Outcome

# Rows of a group that are not sent, by their places, and how those have ended that have not been settled yet.
Over = dict[int, tuple[RowKey, Outcome] | None]
# Looks at rows that are about to be sent, and adds to what is over.
Met = Callable[[RowGroup, Sequence[bytes], Over], None]


class Copies:
    """Of rows that are open, by digest."""

    def __init__(self) -> None:
        self._of: dict[bytes, dict[RowKey, RowGroup]] = {}

    def keep(
        self,
        rows: RowGroup,
        digests: Sequence[bytes],
        over: Over,
        open_key: Callable[[bytes], RowKey | None],
    ) -> None:
        """Of rows that are about to be sent those that say what is open, or what stands before them: they join what is
        not sent (`over`), and have not ended."""
        first: dict[bytes, RowKey] = {}
        for n, digest in enumerate(digests):
            if n in over:
                continue
            key = RowKey(int(rows.columns["position_ms"][n]), digest, int(rows.columns["version"][n]))
            same = first.get(digest) or open_key(digest)
            first.setdefault(digest, same or key)
            if same is None or generation_of(same.version) != generation_of(key.version):
                continue
            # The very row that is open, or stands before it, has come twice.
            if same != key:
                self._of.setdefault(digest, {})[key] = rows.one(n)
            over[n] = None

    def __contains__(self, key: RowKey) -> bool:
        return key in self._of.get(key.digest, ())

    def __len__(self) -> int:
        return len(self._of)

    def pop(self, digest: bytes) -> dict[RowKey, RowGroup]:
        """What waits for the end of that row, which is over."""
        return self._of.pop(digest, {}) if self._of else {}

    def positions_ms(self) -> list[int]:
        return [key.position_ms for rows in self._of.values() for key in rows]

    def clear(self) -> None:
        self._of.clear()
