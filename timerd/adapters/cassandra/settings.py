"""What an operator chooses: where the nodes are, how often a row is kept, how long an answer may take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from timerd.model.errors import StartupError

SAFE_REPLICAS = 3
_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")


@dataclass(frozen=True, slots=True)
class CassandraSettings:
    """`replication`: data centre -> replicas, used when the keyspace is created."""

    contact_points: tuple[str, ...] = ("127.0.0.1",)
    port: int = 9042
    keyspace: str = "timerd"
    datacenter: str = "datacenter1"
    replication: Mapping[str, int] = field(default_factory=lambda: {"datacenter1": SAFE_REPLICAS})
    username: str = ""
    password: str = ""
    # An answer that takes longer is an unknown outcome; callers hear UNAVAILABLE well within 2.5 s.
    request_timeout_s: float = 2.0
    # Requests under way at a time, of this process.
    most_in_flight: int = 96
    # Repeats of a message within a day get the first reply, at a read and a write for each message.
    remember_requests: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.keyspace):
            raise StartupError(
                f"The keyspace is {self.keyspace!r}; it must be 1 to 48 of a-z, 0-9 and _, beginning with a letter."
            )
        if not self.contact_points:
            raise StartupError("No Cassandra node is named. Name at least one address.")
        if not self.replication or min(self.replication.values()) < 1:
            raise StartupError("Replication must name each data centre with a number of replicas of at least 1.")
