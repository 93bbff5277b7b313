"""What an operator chooses: where the nodes are, how often a row is kept, how long an answer may take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from timerd.config import CassandraConfig
from timerd.model.errors import StartupError

SAFE_REPLICAS = 3
DEFAULT_PORT = 9042
_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")


@dataclass(frozen=True, slots=True)
class CassandraSettings:
    """`replication`: data centre -> replicas, used when the keyspace is created."""

    contact_points: tuple[str, ...] = ("127.0.0.1",)
    port: int = DEFAULT_PORT
    keyspace: str = "timerd"
    datacenter: str = "datacenter1"
    replication: Mapping[str, int] = field(default_factory=lambda: {"datacenter1": SAFE_REPLICAS})
    username: str = ""
    password: str = ""
    # An answer that takes longer is an unknown outcome; callers hear UNAVAILABLE well within 2.5 s.
    request_timeout_s: float = 2.0
    # Requests under way at a time, of this process.
    most_in_flight: int = 96
    # Without effect, and advised against: a repeated call is recognised by its rows (core/protocol/message_place.py).
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


def settings_of(config: CassandraConfig) -> CassandraSettings:
    """From what an operator wrote. Raises StartupError."""
    points, port = parse_nodes(",".join(config.nodes))
    return CassandraSettings(
        contact_points=points,
        port=port,
        keyspace=config.keyspace,
        datacenter=config.datacenter,
        replication=parse_replication(config.replication, config.datacenter),
        username=config.user,
        password=config.password.get_secret_value(),
        remember_requests=config.remember_requests,
    )


def parse_nodes(text: str) -> tuple[tuple[str, ...], int]:
    """Addresses and their port: `10.0.0.1,10.0.0.2` or `10.0.0.1:9142,10.0.0.2:9142`."""
    pairs = [node.strip().rpartition(":") for node in text.split(",") if node.strip()]
    named = [(address, port) if colon else (port, str(DEFAULT_PORT)) for address, colon, port in pairs]
    ports = {port for _, port in named}
    is_port = len(ports) == 1 and all(port.isdigit() and 0 < int(port) < 65536 for port in ports)
    if not is_port or not all(address for address, _ in named):
        raise StartupError(
            f"{text!r} does not name Cassandra nodes: write ADDRESS or ADDRESS:PORT, several with commas between them "
            "and the same port."
        )
    return tuple(address for address, _ in named), int(ports.pop())


def parse_replication(text: str, datacenter: str) -> dict[str, int]:
    """`3` for the one data centre, or `east:3,west:3`."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, count = part.strip().rpartition(":")
        if not count.isdigit():
            raise StartupError(f"{text!r} is no replication: write 3, or east:3,west:3 for several data centres.")
        found[name or datacenter] = int(count)
    return found


def advice_on(settings: CassandraSettings, replicas: int) -> tuple[str, ...]:
    """What its operator should change, as sentences."""
    found: list[str] = []
    if replicas < SAFE_REPLICAS:
        found.append(
            f"The keyspace {settings.keyspace!r} keeps {replicas} replica(s) of each row: with fewer than "
            f"{SAFE_REPLICAS} the loss of one node stops the service or loses tasks. Raise its replication (ALTER "
            "KEYSPACE, then a full repair)."
        )
    if settings.remember_requests:
        found.append(
            "cassandra.remember_requests has no effect any more: a repeated call is recognised without it. Take it out "
            "of the configuration (also TIMERD_CASSANDRA_REMEMBER_REQUESTS)."
        )
    return tuple(found)
