"""What may befall a cluster, and how often. Equal entries count twice."""

from __future__ import annotations

from timerd.core.cluster.membership import Timing

# Short leases make short histories.
TIMINGS = (Timing(500, 3_000), Timing(500, 3_000), Timing(1_000, 5_000), Timing(2_000, 10_000))
DEEDS = {
    "schedule": 10,
    "cancel": 5,
    "move": 4,
    "fire now": 1,
    "redrive": 2,
    "repeat": 1,
    "get": 1,
    "hang up": 1,
    "leave": 1,
    "kill": 3,
    "crash soon": 4,
    "pause": 3,
    "pause soon": 4,
    "cut off": 3,
    "cut": 3,
    "stop": 3,
    "join": 2,
    "step": 2,
    "at once": 4,
}
# What befalls an instance while calls are under way, and the calls.
BLOWS = ("kill", "pause", "cut off", "cut", "stop")
CALLS = ("schedule", "schedule", "cancel", "move", "move", "fire now")
DOWN_MS = (0, 5, 500, 2_000, 6_000, 20_000, 120_000)
# Of pauses and cuts: within a lease, and beyond it.
PAUSES_MS = (50, 500, 2_500, 4_000, 6_000, 12_000, 25_000)
# Of an instance's wall clock: beyond what is slewed.
STEPS_MS = (-3_600_000, -5_000, -150, 150, 5_000, 3_600_000)
# At which calls of the store an instance is stopped or killed.
TRAPS = ("", "", "append", "facts", "settle", "cas", "cas", "mark", "settled", "scan", "read")
# When a schedule is called again that was answered or given up, and whoever calls it gives up (0: never).
REPEATED_AFTER_S = (0, 0.3, 3, 3, 20, 65, 120)
PATIENCE_S = (0, 0, 0, 2.25, 0.3, 0.02)
# How long a history goes on when nothing happens any more.
LINGERS_S = (*(0,) * 7, 125)
# When everything is over, until all of it is said once more.
SAID_ALL_AGAIN_S = (*(0,) * 12, 600, 600, 600, 10_000)
