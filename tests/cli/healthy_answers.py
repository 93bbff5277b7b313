"""What a server answers that lacks nothing."""

from __future__ import annotations

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from timerd.v1 import timer_service_pb2 as pb

NOW = datetime(2030, 1, 1, tzinfo=UTC)
Info = pb.GetServerInfoResponse
SECONDS = int(NOW.timestamp())


def healthy() -> Info:
    return Info(
        version="0.1.0",
        durability="fsync (SQLite)",
        store="SQLite",
        engine_time=Timestamp(seconds=SECONDS),
        clock_trusted=True,
        disk_free_bytes=50 << 30,
        ledger=pb.Ledger(inserted=10, acked=9, cancelled=1),
        memory_used_bytes=10 << 20,
        memory_budget_bytes=1 << 30,
        lateness_bounds_ms=[1, 2, 5],
        lateness_counts=[98, 1, 1],
    )
