"""Whose turn it is among the limit keys of a queue, so that a customer with much due does not delay the others; and
earliest deadline first, in the queues that ask for it."""

from timerd.core.fairness.deadlines import DeadlineTurn, Pick
from timerd.core.fairness.keyed_rows import KeyedRows, RowChoice, keys_of
from timerd.core.fairness.limit_keys import KeyLimits, KeyRoom, KeyTurn, LimitKeys

__all__ = ["DeadlineTurn", "KeyLimits", "KeyRoom", "KeyTurn", "KeyedRows", "LimitKeys", "Pick", "RowChoice", "keys_of"]
