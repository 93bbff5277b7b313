"""Asking `moves` for the rows that may not fire before it has answered: each digest once at a time, and no more often
than the mover needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from timerd.core.partition.effects import AskMoves, Effects, FailMove
from timerd.model.identity import generation_of
from timerd.model.partition import Partition
from timerd.model.registers import Move, MoveState

# A mover that has not decided after so many looks, one every tick, is taken for dead.
MOST_LOOKS = 10


class MoveWatch:
    """Of one held partition."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._on_its_way: set[bytes] = set()
        # Generation of the move, and how often it was met undecided: the next mover of a task has its own time.
        self._looks: dict[bytes, tuple[int, int]] = {}

    def ask(self, digests: Iterable[bytes]) -> Effects:
        """A read for those that none is on its way for."""
        fresh = [digest for digest in digests if digest not in self._on_its_way]
        return self.ask_again(fresh) if fresh else []

    def ask_again(self, digests: list[bytes]) -> Effects:
        """A read that begins now, whatever is on its way."""
        self._on_its_way.update(digests)
        return [AskMoves(self._partition, digests)]

    def answered(self, digests: Iterable[bytes]) -> None:
        self._on_its_way.difference_update(digests)

    def decided(
        self, moves: Mapping[bytes, Move | None], stale: Collection[bytes]
    ) -> tuple[Effects, dict[bytes, tuple[int, int] | None]]:
        """(what to ask or to change, digest -> the generations that live of what was decided). `stale`: asked for again
        since this read began."""
        effects: Effects = []
        alive: dict[bytes, tuple[int, int] | None] = {}
        for digest, move in moves.items():
            if digest in stale:
                effects += self.ask([digest])
            elif move is not None and move.state is MoveState.MOVING:
                effects += self.undecided(digest, move)
            else:
                self.forget(digest)
                alive[digest] = None if move is None else (generation_of(move.place.key.version), move.generation)
        return effects, alive

    def undecided(self, digest: bytes, move: Move) -> Effects:
        """Its mover needs milliseconds; one that left is not waited for."""
        generation, looks = self._looks.get(digest, (move.generation, 0))
        looks = looks + 1 if generation == move.generation else 1
        self._looks[digest] = (move.generation, looks)
        if looks <= MOST_LOOKS:
            return []
        return [FailMove(self._partition, digest, move)]

    def forget(self, digest: bytes) -> None:
        """It was decided, or another mover has come."""
        self._looks.pop(digest, None)
