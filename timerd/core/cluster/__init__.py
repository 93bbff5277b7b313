"""The instances of a cluster: who lives, who should hold what, whose clock is right, and how much is coming."""

from timerd.core.cluster.clock_comparison import Comparison, Reading, Standing, compare
from timerd.core.cluster.engine_clock import STABLE_MS, EngineClock
from timerd.core.cluster.forecast import Outlook, demand_per_s
from timerd.core.cluster.lease_trust import LeaseTrust
from timerd.core.cluster.load_estimate import LoadEstimate, shards_for
from timerd.core.cluster.membership import HeldBy, Members, Predecessor, Seen, Timing, beat, claim, enlist, look
from timerd.core.cluster.placement import holder_of, placed

__all__ = [
    "Comparison",
    "EngineClock",
    "HeldBy",
    "LoadEstimate",
    "LeaseTrust",
    "Members",
    "Outlook",
    "Predecessor",
    "Reading",
    "STABLE_MS",
    "Seen",
    "Standing",
    "Timing",
    "beat",
    "claim",
    "compare",
    "demand_per_s",
    "enlist",
    "holder_of",
    "look",
    "placed",
    "shards_for",
]
