"""The ids of tasks of calls of one task each, composed as columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from timerd.model.identity import macs_of_messages
from timerd.model.partition import Partition
from timerd.model.task_ids import ID, texts_of
from timerd.services.engine.new_singles import NewSingles


def id_texts(secret: bytes, plain: NewSingles, places: Sequence[Partition]) -> list[str]:
    """`places` (n,): where the rows live, which is where they are due."""
    rows, templates = plain.rows.columns, plain.rows.templates
    kinds, prefixes = rows["template"].tolist(), plain.prefixes()
    ids = np.zeros(len(rows), ID)
    ids["position_ms"], ids["item"] = rows["position_ms"], rows["index"]
    ids["shard"] = [place.shard for place in places]
    ids["scope"] = np.array([each.scope for each in templates], np.uint64)[kinds]
    ids["priority"] = np.array([each.priority for each in templates], np.uint8)[kinds]
    ids["prefix"] = np.frombuffer(b"".join(prefixes), ids.dtype["prefix"])
    macs: list[bytes] = [b""] * len(rows)
    for (kind, place), which in _alike(kinds, places).items():
        named, own = templates[kind], [prefixes[n] for n in which]
        found = macs_of_messages(secret, named.namespace, own, place, named.scope, named.priority)
        for n, mac in zip(which, found, strict=True):
            macs[n] = mac
    ids["mac"] = np.frombuffer(b"".join(macs), ids.dtype["mac"])
    return texts_of(ids)


def _alike(kinds: Sequence[int], places: Sequence[Partition]) -> dict[tuple[int, Partition], list[int]]:
    found: dict[tuple[int, Partition], list[int]] = {}
    for n, alike in enumerate(zip(kinds, places, strict=True)):
        found.setdefault(alike, []).append(n)
    return found
