"""The tasks of an ordering key, which start one at a time and in order (protocol section 8, rules O)."""

from timerd.core.ordering.halts import Halts
from timerd.core.ordering.kept_shards import KeptShards
from timerd.core.ordering.key_counts import KeyPhase
from timerd.core.ordering.key_gate import LOOK_MS, KeyGate
from timerd.core.ordering.lines import Filed, KeyFacts
from timerd.core.ordering.order_keys import OrderedRows, OrderKeys

__all__ = ["LOOK_MS", "Filed", "Halts", "KeptShards", "KeyFacts", "KeyGate", "KeyPhase", "OrderKeys", "OrderedRows"]
