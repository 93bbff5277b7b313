"""Partitions whose work fails in a way that nobody foresaw: what the health board says of them."""

from __future__ import annotations

import asyncio

from timerd.model.partition import Partition
from timerd.services.background import note

# A partition that was given up counts as failing until its next holder has had time to do what failed.
REMEMBERED_S = 30.0


class Failures:
    """Of one instance."""

    def __init__(self) -> None:
        # What failed, and when last.
        self._failed: dict[tuple[Partition, str], float] = {}

    def add(self, partition: Partition, work: str, error: BaseException, consequence: str) -> None:
        self._failed[partition, work] = asyncio.get_running_loop().time()
        note(work, error, f"{partition} {consequence}")

    def done(self, partition: Partition, work: str) -> None:
        """It has been done since."""
        if self._failed:
            self._failed.pop((partition, work), None)

    def sentence(self) -> str:
        """Empty where all is well."""
        if not self._failed:
            return ""
        limit_s = asyncio.get_running_loop().time() - REMEMBERED_S
        self._failed = {which: at_s for which, at_s in self._failed.items() if at_s > limit_s}
        works = sorted({work for _, work in self._failed})
        partitions = len({partition for partition, _ in self._failed})
        if not works:
            return ""
        return f"{', '.join(works)} of {partitions} partition(s) failed with an unforeseen error: the log has it."
