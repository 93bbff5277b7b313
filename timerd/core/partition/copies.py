"""Rows that say the same task once more, at another position of the same partition.

A call that is repeated after an unknown outcome writes its tasks again where they are due by then (guarantee G2), and
there may be as many rows as there were tries. One of them is sent; the others wait with it and end as it does. Sent
beside it they would be one delivery with several rows, of which an ack ends one: the rest would hold the marks back,
and fire again when the partition has its next holder. The attempt does not matter: the row that is met late says the
first one, and the one that is open may be the second by then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence

from timerd.core.gates import ALL_MAY, KEPT, DueBatch, Fates
from timerd.model.identity import RowKey, generation_of
from timerd.model.rows import RowGroup


class Copies:
    """Of rows that are open, by digest."""

    def __init__(self) -> None:
        self._of: dict[bytes, dict[RowKey, RowGroup]] = {}

    def keep(
        self,
        rows: RowGroup,
        digests: Sequence[bytes],
        judged: Container[int],
        open_key: Callable[[bytes], RowKey | None],
    ) -> list[int]:
        """Of rows that are about to be sent, without those that are `judged`, keeps the ones that say what is open, or
        what stands before them. Returns which."""
        first: dict[bytes, RowKey] = {}
        kept: list[int] = []
        for n, digest in enumerate(digests):
            if n in judged:
                continue
            key = RowKey(int(rows.columns["position_ms"][n]), digest, int(rows.columns["version"][n]))
            same = first.get(digest) or open_key(digest)
            first.setdefault(digest, same or key)
            if same is None or generation_of(same.version) != generation_of(key.version):
                continue
            # The very row that is open, or stands before it, has come twice.
            if same != key:
                self._of.setdefault(digest, {})[key] = rows.one(n)
            kept.append(n)
        return kept

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


class CopyGate:
    """Of the rows that say one task, one is sent; the others are kept until it is over. `opened`: digests of the tasks
    that are open, `open_key`: the row by which one is."""

    def __init__(
        self, copies: Copies, opened: Callable[[], Collection[bytes]], open_key: Callable[[bytes], RowKey | None]
    ) -> None:
        self._copies = copies
        self._opened = opened
        self._open_key = open_key

    def judge(self, batch: DueBatch, _: int) -> Fates:
        digests = batch.due.digests
        met = set(digests)
        if len(met) == len(digests) and met.isdisjoint(self._opened()):
            return ALL_MAY
        return dict.fromkeys(self._copies.keep(batch.due.rows, digests, batch.fates, self._open_key), KEPT)
