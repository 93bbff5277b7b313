"""What a server can be told. Every limit stands here with its unit and its reason; nothing else reads the
environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_LISTEN = "127.0.0.1:7400"
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Settings of one serving process."""

    data: Path = Path("timerd-data")
    listen: str = DEFAULT_LISTEN
    # Off loopback either both of these or `insecure` is needed.
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    # "full": fsync before OK. "normal": a power cut may take the last commits, a crash of the process none.
    synchronous: str = "full"
    # How far ahead of its start a bucket is loaded: long enough to load it, short enough to keep it off the memory.
    look_ahead_ms: int = 90_000
    # What loaded tasks may take; beyond it the rest of a bucket waits in the store (G13).
    memory_budget_bytes: int = 1024 * MIB
    # Requests that are being taken in, all streams together; beyond it RESOURCE_EXHAUSTED before any write (G13).
    ingest_budget_bytes: int = 256 * MIB
    payload_limit_bytes: int = 64 * 1024
    # How long ended tasks keep their outcome.
    history_retention_ms: int = 24 * 3_600_000
    # How far `verified` may fall behind before what is still open is carried.
    max_mark_lag_ms: int = 600_000
    # Rows a second that missed buckets may load beside on-time work (G14).
    catch_up_rows_per_s: int = 50_000
    # How long a broken worker stream may take to come back with what it holds.
    resume_grace_ms: int = 1_000
    # How long SIGTERM waits for deliveries in hand.
    drain_ms: int = 10_000
    # How long the wall clock must keep its course after a jump before tasks fire by it again (G4).
    clock_stable_ms: int = 30_000
    max_streams: int = 1_000
