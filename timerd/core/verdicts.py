"""What was said of rows in advance: how they end when they are met."""

from __future__ import annotations

from collections.abc import Sequence

from timerd.model.identity import RowKey, delivery_id_of
from timerd.model.row_keys import delivery_ids
from timerd.model.settle import Outcome

Verdict = tuple[Outcome, bytes]
# How a task ends by what a worker said alone: that speaks of one generation, and a task may live again after it.
BY_WORD = frozenset((Outcome.ACKED, Outcome.DEAD))


class Verdicts(dict[bytes, Verdict]):
    """By digest; what a worker said (BY_WORD) by delivery id. With the hash of the request that gave it."""

    # Whether there may be one by delivery id.
    has_words = False

    def give(self, key: RowKey, outcome: Outcome, request: bytes) -> bytes:
        """Returns the request that gave it first."""
        known = self.of(key)
        if known is not None:
            return known[1]
        of_all = outcome not in BY_WORD
        self.has_words |= not of_all
        self[key.digest if of_all else delivery_id_of(key.digest, key.version)] = outcome, request
        return request

    def give_all(self, digests: Sequence[bytes], outcome: Outcome, request: bytes) -> None:
        """Of whole tasks that have none."""
        self.update(dict.fromkeys(digests, (outcome, request)))

    def of(self, key: RowKey) -> Verdict | None:
        if not self:
            return None
        found = self.get(key.digest)
        if found is not None or not self.has_words:
            return found
        return self.get(delivery_id_of(key.digest, key.version))

    def knows_any(self, keys: Sequence[RowKey], digests: Sequence[bytes]) -> bool:
        """`digests`: those of the keys."""
        if not self:
            return False
        known = self.keys()
        return not (known.isdisjoint(digests) and (not self.has_words or known.isdisjoint(delivery_ids(keys))))
