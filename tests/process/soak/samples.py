"""What the server costs, looked at every few seconds, and whether it has stopped growing."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

# A series is flat when its straight line rises by less than this share of its mean, from the warm-up to the end.
FLAT_SHARE = 0.10
# Half of what came was later than this: no restart after a kill explains it, the machine does not keep the pace.
BEHIND_MS = 5_000.0
BEHIND_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Sample:
    """At one instant, `at_s` after the start. Counts are since the start, lateness is since the last sample."""

    at_s: float
    pss_bytes: int
    rss_bytes: int
    open_files: int
    database_bytes: int
    log_bytes: int
    scheduled: int
    arrived: int
    in_hand: int
    late_p50_ms: float
    late_p99_ms: float
    late_max_ms: float
    judge_rss_bytes: int

    @property
    def disk_bytes(self) -> int:
        return self.database_bytes + self.log_bytes


@dataclass(frozen=True, slots=True)
class Trend:
    name: str
    mean: float
    largest: float
    # By the straight line through all samples after the warm-up.
    rise: float

    @property
    def is_flat(self) -> bool:
        return self.rise <= FLAT_SHARE * self.mean


# What must be flat: name -> unit.
GROWING = {"pss_bytes": "MiB", "open_files": "", "disk_bytes": "MiB"}


def memory_of(pid: int) -> tuple[int, int]:
    """(PSS, RSS). PSS divides shared pages among those who share them."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith(("Pss:", "Rss:"))}
    return sizes["Pss"], sizes["Rss"]


def open_files_of(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def lateness_of(lateness_ms: Sequence[float]) -> tuple[float, float, float]:
    """(p50, p99, max)."""
    if not lateness_ms:
        return 0.0, 0.0, 0.0
    p50, p99, largest = np.percentile(np.array(lateness_ms), (50, 99, 100))
    return round(float(p50), 3), round(float(p99), 3), round(float(largest), 3)


def trend(samples: Sequence[Sample], name: str, warm_up_s: float) -> Trend:
    kept = [each for each in samples if each.at_s >= warm_up_s] or list(samples)
    at_s = np.array([each.at_s for each in kept])
    values = np.array([getattr(each, name) for each in kept], dtype=float)
    slope = float(np.polyfit(at_s, values, 1)[0]) if len(kept) > 2 else 0.0
    return Trend(name, float(values.mean()), float(values.max()), slope * float(at_s[-1] - at_s[0]))


def behind(samples: Sequence[Sample]) -> list[Sample]:
    """Those that show that the server had fallen behind; none where it was for less than a twentieth of the run."""
    late = [each for each in samples if each.late_p50_ms > BEHIND_MS]
    return late if len(late) > BEHIND_SHARE * len(samples) else []


def write_csv(samples: Sequence[Sample], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Sample)])
        writer.writeheader()
        writer.writerows(map(asdict, samples))
