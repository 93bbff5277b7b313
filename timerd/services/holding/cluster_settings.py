"""What all who ever serve the same data must agree on: written once, by the first of them (protocol section 1)."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from timerd.model.codec import dump_json
from timerd.model.errors import StartupError
from timerd.model.partition import BUCKET_MS
from timerd.model.registers import RegisterKey, Table
from timerd.model.storage import Cas, CasStatus
from timerd.model.zones import ZONES
from timerd.ports import Registers

CLUSTER = RegisterKey(Table.CLUSTER, b"settings")


class ClusterSettings(NamedTuple):
    """`secret` signs ids; `shards` is how many each bucket has that is not hot; `zones`: what stands there of the data
    of time zones, if anything."""

    secret: bytes
    shards: int
    zones: bytes | None = None


async def cluster_settings(store: Registers, shards: int, default_shards: int) -> ClusterSettings:
    """`shards`: what this process was told, 0 where it takes what is recorded, `default_shards` for new data. Raises
    StartupError where the data were made with other settings."""
    made = {"bucket_ms": BUCKET_MS, "secret": os.urandom(32).hex(), "shards": shards or default_shards}
    text = dump_json(made)
    result = (await store.cas([Cas(CLUSTER, None, text)]))[0]
    is_new = result.status is CasStatus.APPLIED
    stored, zones = (text, None) if is_new else await store.read([CLUSTER, ZONES])
    if stored is None:
        raise StartupError("The store did not take in what all instances share: look at its health, and start again.")
    settings = json.loads(stored)
    if settings["bucket_ms"] != BUCKET_MS:
        raise StartupError(
            f"The data were written with buckets of {settings['bucket_ms']} ms, this program uses {BUCKET_MS} ms: "
            "start the version that wrote them, or another data directory or keyspace."
        )
    recorded = int(settings.get("shards", 1))
    if shards not in (0, recorded):
        raise StartupError(
            f"The buckets of these data have {recorded} shard(s), and this process was told {shards}: leave --shards "
            "out, or use another keyspace. A hot bucket gets more shards by itself."
        )
    return ClusterSettings(bytes.fromhex(settings["secret"]), recorded, zones)
