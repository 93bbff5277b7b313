"""A held partition: its machine, its rows, and what it asks to have done."""

from timerd.core.partition.carry import carried_row, history_with
from timerd.core.partition.effects import (
    AskMoves,
    ChangeControl,
    CountRows,
    Effect,
    FailMove,
    FlagFinishing,
    ReadControl,
    ReadPage,
    ReadSettled,
    WriteCarried,
    WriteSettled,
)
from timerd.core.partition.holding import Asked, HoldingSettings, Offered, Phase
from timerd.core.partition.memory import Memory
from timerd.core.partition.partition_machine import PartitionMachine, is_outlasted
from timerd.core.partition.pending_outcomes import BY_WORD, UNMARKED
from timerd.core.partition.recent_ends import FOR_GOOD
from timerd.core.partition.reload import Reload, put_together
from timerd.core.partition.settled_index import SettledIndex, keys_in

__all__ = [
    "AskMoves",
    "Asked",
    "BY_WORD",
    "ChangeControl",
    "CountRows",
    "Effect",
    "FOR_GOOD",
    "FailMove",
    "FlagFinishing",
    "Memory",
    "Offered",
    "PartitionMachine",
    "Phase",
    "ReadControl",
    "ReadPage",
    "ReadSettled",
    "Reload",
    "HoldingSettings",
    "SettledIndex",
    "UNMARKED",
    "WriteCarried",
    "WriteSettled",
    "carried_row",
    "history_with",
    "is_outlasted",
    "keys_in",
    "put_together",
]
