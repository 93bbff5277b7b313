"""Which queue's task a free slot of a pool gets, and which worker's slot a task takes (docs/understand/pools.md)."""

from timerd.core.assignment.contest import HERE, Choice, Contest
from timerd.core.assignment.pools import Pool, Pools
from timerd.core.assignment.score import order_key, rarity_ms

__all__ = ["HERE", "Choice", "Contest", "Pool", "Pools", "order_key", "rarity_ms"]
