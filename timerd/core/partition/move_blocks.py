"""What a move blocks: rows that fire only after `moves` has said where their task lives.

A mover that asks, a mark of a move, and a row that a move brought in each block a task's rows here. A read of `moves`
that began later than the last ask decides: the rows of the live generation are released, the others are over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import count

from timerd.core.partition.effects import Effects
from timerd.core.partition.move_watch import MoveWatch
from timerd.model.identity import RowKey, generation_of
from timerd.model.partition import Partition
from timerd.model.registers import Move
from timerd.model.rows import RowGroup

# A generation that lives, and the number of the move that said so.
Live = tuple[int, int]


class MoveBlocks:
    """Those of one held partition, by digest."""

    def __init__(self, partition: Partition) -> None:
        self.watch = MoveWatch(partition)
        # Rows that wait for an answer.
        self.rows: dict[bytes, dict[RowKey, RowGroup]] = {}
        # Tasks that were asked for, with the number of the last ask. No number comes twice: an answer is never taken
        # for that of a later ask.
        self.asked: dict[bytes, int] = {}
        self._asks = count(1)
        # Of tasks that moved: the generation whose rows may fire.
        self._live: dict[bytes, Live] = {}

    def __bool__(self) -> bool:
        """Whether anything was said of any task."""
        return bool(self.asked or self._live)

    def __contains__(self, digest: bytes) -> bool:
        """Whether the task's rows are blocked."""
        return digest in self.asked

    def knows_any(self, digests: Collection[bytes]) -> bool:
        """Whether a live generation is known of one of the tasks."""
        return not self._live.keys().isdisjoint(digests)

    def block(self, digest: bytes) -> None:
        """The task's rows fire only after a read of `moves` that begins later than this."""
        self.asked[digest] = next(self._asks)

    def mark(self, digest: bytes, generation: int) -> None:
        """A mark says that the task moved by that move, whose outcome is perhaps known."""
        if self._live.get(digest, (0, 0))[1] < generation:
            self.asked.setdefault(digest, next(self._asks))

    def keep(self, key: RowKey, row: RowGroup) -> None:
        """Keeps the row until a read of `moves` that begins after this."""
        self.rows.setdefault(key.digest, {})[key] = row
        self.block(key.digest)

    def has(self, key: RowKey) -> bool:
        """Whether the row is kept here."""
        return key in self.rows.get(key.digest, ())

    def release(self, digest: bytes, live: Live | None) -> Iterator[tuple[RowKey, RowGroup]]:
        """The task is no longer blocked, and these were its rows, but for those that a later move than that of `live`
        brought: they stay. None: `moves` has forgotten the task, which it does long after all its rows were due."""
        self.asked.pop(digest, None)
        if live is not None:
            # Two reads may be under way, and the one that began first be answered last.
            live = self._live[digest] = max(live, self._live.get(digest, live), key=lambda each: each[1])
        for key, row in self.rows.pop(digest, {}).items():
            if live is not None and generation_of(key.version) > live[1]:
                self.keep(key, row)
            else:
                yield key, row

    def is_outlived(self, key: RowKey) -> bool:
        """Whether the row is of a generation that a move has ended."""
        live = self._live.get(key.digest)
        return live is not None and live[0] != generation_of(key.version) <= live[1]

    def positions_ms(self) -> list[int]:
        return [key.position_ms for rows in self.rows.values() for key in rows]

    def decided(
        self, moves: Mapping[bytes, Move | None], asked: Mapping[bytes, int]
    ) -> tuple[Effects, dict[bytes, Live | None]]:
        """Hears an answer that began when `asked` was the number of the last ask: a later ask wins over it. Returns
        (what to ask or to change, digest -> which generation lives)."""
        stale = {digest for digest in moves if self.asked.get(digest, 0) != asked.get(digest, 0)}
        return self.watch.decided(moves, stale)
