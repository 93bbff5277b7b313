"""What a server can be told: one typed model, with a unit and a reason for every limit.

Nothing else reads the environment. A setting is known to its users by its path without the unit: `memory_budget_bytes`
is `memory_budget = "1GiB"` in a file, `TIMERD_MEMORY_BUDGET=1GiB` in the environment; what is in a section of the file
has the section's name before it (`[tls] key_file`, `TIMERD_TLS_KEY_FILE`). Names end in `_ms` or `_bytes` for that
reason, and a secret is a `SecretStr`, which is never shown. How the layers come together: commands/settings.py.
"""

from __future__ import annotations

import ipaddress
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, SecretStr
from pydantic.dataclasses import dataclass

DEFAULT_LISTEN = "127.0.0.1:7400"
KIB = 1 << 10
MIB = 1 << 20
HOUR_MS = 3_600_000

# An error must not repeat what was given: it may be a secret.
STRICT = ConfigDict(extra="forbid", hide_input_in_errors=True)


@cache
def own_version() -> str:
    """Of the installed package, whose description is read once."""
    return version("timerd")


def _form(pattern: str, says: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(says)
        return text

    return AfterValidator(check)


def _network(text: str) -> str:
    try:
        ipaddress.ip_network(text)
    except ValueError as error:
        raise ValueError("write networks as 10.1.0.0/16 or fd00::/8") from error
    return text


_HOST = _form(
    r"(\*\.)?[a-z0-9._-]+|\[[0-9a-f:.]+\]", "write names in lower case, as hooks.example.com or *.example.com, no port"
)
Ms = Annotated[int, Field(ge=0)]
# Beyond it a machine has no such memory, and a typed error in the unit is more likely.
Bytes = Annotated[int, Field(ge=1, le=1 << 50)]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class TlsConfig:
    """Files in PEM. The environment's names end in _FILE, so that those of a client (TIMERD_TLS_KEY) are others."""

    certificate_file: Path | None = None
    key_file: Path | None = None
    # With it every caller must show a certificate that it signed.
    client_ca_file: Path | None = None
    # What the certificates of other instances are signed by, where that is another.
    peer_ca_file: Path | None = None
    # The name in the certificates of other instances, which are called by their addresses.
    peer_name: str = ""


# By how much the clock of who signs a token may differ.
TOKEN_LEEWAY_S = 30


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class JwtConfig:
    """Tokens that an identity provider signs (adapters/json_web_tokens.py). All three, or none."""

    issuer: str = ""
    audience: str = ""
    # A file with a JWK set, or the https address of one.
    keys: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class AuthConfig:
    """Who may do what (services/transport/principals.py). Without the file, all who may connect may do everything."""

    principals_file: Path | None = None
    # What operators do is written down there (services/transport/audit.py).
    audit_file: Path | None = None
    jwt: JwtConfig = JwtConfig()


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class HttpConfig:
    """The port for those who watch (/metrics, /healthz, /readyz, /version), and for callers by HTTP (docs/use/http.md).
    Without `listen` there is none."""

    listen: str = ""
    # Metrics show names of queues and no task: where the network is trusted, plain HTTP may do although callers use
    # TLS. Callers are not served there, for their tokens and tasks could be read on the way.
    insecure: bool = False
    # Whether callers are served.
    calls: bool = True
    # The page at /ui: none, one to look at, or one that offers changes too. It makes calls: without them there is none.
    page: Literal["off", "view", "act"] = "view"
    # The names, without a port, by which callers may reach it, beside those of loopback and the host of `listen`: a
    # page of a stranger in somebody's browser must not, by whatever name it finds.
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class WebhooksConfig:
    """Queues whose tasks are posted to an address (docs/use/webhooks.md). Without `targets_file` there are none. The
    lists stand here, so that those who may write that file cannot point it inside."""

    # A table for each queue (services/webhooks/targets_file.py).
    targets_file: Path | None = None
    # The hosts that targets may have: names, *.example.com for those below one, addresses.
    hosts: tuple[Annotated[str, _HOST], ...] = ()
    # Those of them that may be spoken to by plain http.
    insecure_hosts: tuple[Annotated[str, _HOST], ...] = ()
    # What a host may lead to beside public addresses: 10.1.0.0/16, fd00::/8.
    private_networks: tuple[Annotated[str, AfterValidator(_network)], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class StreamsConfig:
    """Queues whose tasks are appended to a Redis stream (docs/use/streams.md). Without a file there are none."""

    # A table for each queue (services/streams/targets_file.py).
    targets_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class OutboxConfig:
    """A relay that the server keeps running beside it (docs/use/outbox.md). Without `relay_database` there is none."""

    # postgresql://, mysql:// or sqlite:///. Hidden, since it may carry a password.
    relay_database: SecretStr = SecretStr("")
    # HOST:PORT that the relay sends to. Empty: where the server listens.
    server: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class LogConfig:
    """Lines on stderr. `auto`: for people on a terminal, JSON elsewhere."""

    format: Literal["auto", "console", "json"] = "auto"
    level: Literal["debug", "info", "warning", "error"] = "info"


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class CassandraConfig:
    """Where the tasks of a cluster are (docs/operate/cassandra.md)."""

    # HOST or HOST:PORT of some of its nodes; the others are found by them.
    nodes: Annotated[tuple[str, ...], Field(min_length=1)] = ("127.0.0.1",)
    keyspace: Annotated[str, _form(r"[a-z][a-z0-9_]{0,47}", "write 1 to 48 of a-z, 0-9 and _, a letter first")] = (
        "timerd"
    )
    # Only its nodes are spoken to.
    datacenter: str = "datacenter1"
    # 3, or east:3,west:3. Used when `timerd schema apply` makes the keyspace.
    replication: Annotated[str, _form(r"([^,:]+:)?[1-9]\d*(,[^,:]+:[1-9]\d*)*", "write 3, or east:3,west:3")] = "3"
    user: str = ""
    password: SecretStr = SecretStr("")
    # Without effect: a repeated call is recognised without it. A later release refuses it.
    remember_requests: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class RedisConfig:
    """A second way for hints between instances (docs/operate/cassandra.md). Without `url` there is none: all works."""

    # redis://HOST:PORT, rediss://HOST:PORT for TLS, unix:///PATH. Hidden, since it may carry a password.
    url: SecretStr = SecretStr("")
    user: str = ""
    password: SecretStr = SecretStr("")


@dataclass(frozen=True, slots=True, kw_only=True, config=STRICT)
class ServerConfig:
    """Settings of one serving process."""

    # "sqlite": one process, its data in `data`. "cassandra": one of any number of equal instances.
    store: Literal["sqlite", "cassandra"] = "sqlite"
    cassandra: CassandraConfig = CassandraConfig()
    redis: RedisConfig = RedisConfig()
    # Of this instance; two that live must not have the same. Empty: made from the machine's name.
    name: str = ""
    # HOST:PORT at which the other instances reach this one. Empty: where it listens.
    advertise: str = ""
    # How often an instance says that it lives, and how long it is believed without saying so.
    heartbeat_ms: Annotated[int, Field(ge=100)] = 2_000
    lease_ttl_ms: Annotated[int, Field(ge=1_000)] = 10_000
    # Of each bucket, recorded with the first start of a cluster; a hot bucket gets more by itself. 0: as recorded.
    shards: Annotated[int, Field(ge=0, le=1_024)] = 0
    data: Path = Path("timerd-data")
    listen: str = DEFAULT_LISTEN
    # What takes the calls of gRPC (services/transport/front_door.py): "auto" takes the native one where it is installed
    # and can serve these settings.
    front_door: Literal["auto", "grpcio", "native"] = "auto"
    # Off loopback either TLS or this is needed.
    insecure: bool = False
    tls: TlsConfig = TlsConfig()
    auth: AuthConfig = AuthConfig()
    http: HttpConfig = HttpConfig()
    webhooks: WebhooksConfig = WebhooksConfig()
    streams: StreamsConfig = StreamsConfig()
    outbox: OutboxConfig = OutboxConfig()
    log: LogConfig = LogConfig()
    # "full": fsync before OK. "normal": a power cut may take the last commits, a crash of the process none.
    synchronous: Literal["full", "normal"] = "full"
    # How far ahead of its start a bucket is loaded: long enough to load it, short enough to keep it off the memory.
    look_ahead_ms: Ms = 90_000
    # What loaded tasks may take; beyond it the rest of a bucket waits in the store (G13).
    memory_budget_bytes: Bytes = 1024 * MIB
    # Requests that are being taken in, all streams together; beyond it RESOURCE_EXHAUSTED before any write (G13).
    ingest_budget_bytes: Bytes = 256 * MIB
    # What each namespace may schedule in a second, and have at a time (services/calls/quotas_file.py). Without it any.
    quotas_file: Path | None = None
    payload_limit_bytes: Annotated[Bytes, Field(le=MIB)] = 64 * KIB
    # How long ended tasks keep their outcome.
    history_retention_ms: Ms = 24 * HOUR_MS
    # How far `verified` may fall behind before what is still open is carried.
    max_mark_lag_ms: Ms = 600_000
    # Rows a second that missed buckets may load beside on-time work (G14).
    catch_up_rows_per_s: Count = 50_000
    # How long a broken worker stream may take to come back with what it holds.
    resume_grace_ms: Ms = 1_000
    # How long SIGTERM waits for deliveries in hand.
    drain_ms: Ms = 10_000
    # How long the wall clock must keep its course after a jump before tasks fire by it again (G4).
    clock_stable_ms: Ms = 30_000
    max_streams: Count = 1_000
    # A new release of tzdata moves what schedules have recorded ahead only when `timerd zones sweep` says so.
    hold_tzdata: bool = False
    # How often an instance gives itself a task (services/health/canary.py); 0: never. None: 5 s where `http` listens,
    # for then somebody watches, and never elsewhere.
    canary_ms: Ms | None = None
