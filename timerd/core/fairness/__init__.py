"""Whose turn it is among the limit keys of a queue, so that a customer with much due does not delay the others."""

from timerd.core.fairness.keyed_rows import KeyedRows
from timerd.core.fairness.limit_keys import KeyLimits, KeyRoom, KeyTurn, LimitKeys, Pick

__all__ = ["KeyLimits", "KeyRoom", "KeyTurn", "KeyedRows", "LimitKeys", "Pick"]
