"""Histories of one policy of overlaps, as many as it takes to so many occurrences."""

from __future__ import annotations

from dataclasses import dataclass

from tests.schedules.overlap_histories import OverlapHistory
from tests.schedules.variants import PROFILES, variant
from timerd.model.overlap import Overlap

# Those with most crashes, and more occurrences than the others have in their two minutes.
BUSY = {**PROFILES["full"], "crashes": 20, "changes": 3, "fragile": 0.1}


@dataclass
class Apart:
    """What was played. `crashes`: of processes between two steps."""

    policy: Overlap
    histories: int = 0
    occurrences: int = 0
    crashes: int = 0

    def __str__(self) -> str:
        return (
            f"{self.policy}: {self.occurrences:,} occurrences in {self.histories:,} histories with {self.crashes:,} "
            "crashes, no two open at once"
        )


def played_apart(policy: Overlap, occurrences: int, seed: int = 0) -> Apart:
    """From that seed on. Raises Broken."""
    apart = Apart(policy)
    with variant("") as settings:
        while apart.occurrences < occurrences:
            history = OverlapHistory(seed + apart.histories, overlap=policy, **{**BUSY, **settings})
            history.play()
            apart.histories += 1
            apart.occurrences += len(history.rows)
            apart.crashes += sum(line.startswith("crash") for line in history.log)
    return apart
