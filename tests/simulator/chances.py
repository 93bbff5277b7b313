"""What may happen, and how often: the weights by which a story's chance decides. Equal entries count twice."""

from __future__ import annotations

QUEUES = ("a", "b")
HOUR_MS = 3_600_000
HABITS = (
    ("ack",),
    ("ack", "ack", "nack", "vanish"),
    ("ack", "late ack", "late nack", "ack at the end"),
    ("extend", "ack", "vanish", "ack at the end"),
    ("ack", "hang up", "extend", "lose"),
    ("nack", "late nack", "reject", "ack twice"),
    ("long nack", "reject", "reject", "vanish"),
    ("reject", "reject", "nack", "ack"),
    ("nack", "nack", "ack"),
)
GAPS_MS = (0, 0, 0, 1, 1, 3, 20, 100, 300, 1_000, 1_000, 3_000)
DOWN_MS = (0, 0, 0, 5, 5, 500, 2_000, 2_000, 20_000, 400_000, 3 * HOUR_MS, 50 * HOUR_MS)
DOWN_OF_STREAMS_MS = (0, 0, 5, 5, 100, 2_000)
# What may happen next, and how often.
DEEDS = {
    "schedule": 6,
    "cancel": 4,
    "move": 4,
    "fire now": 1,
    "redrive": 3,
    "repeat": 1,
    "kill": 3,
    "crash soon": 5,
    "stop": 2,
    "hang up": 1,
    "leave": 1,
    "get": 1,
}
SLOW = ("append", "append", "catalogue", "scan", "cas", "settle", "mark", "find", "read")
DEEDS_OF_STREAMS = {"schedule": 12, "cancel": 1, "move": 1, "kill": 1, "crash soon": 2, "repeat": 2, "get": 1}
HABITS_OF_STREAMS = (("ack",), ("ack", "ack", "nack"), ("ack", "nack", "nack"), *[("ack", "ack", "ack", "vanish")] * 3)
CRASHES_IN = ("", "append", "append", "settle", "settle", "settle", "cas", "mark")
# Of a stream: just after rows or marks were written, and before anybody is told.
CRASHES_IN_STREAMS = ("append", "append", "cas", "cas", "cas")
