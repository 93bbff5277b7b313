"""Replays a history of a schedule: python -m tests.schedules SEED [VARIANT, overlap policy, or together]; --many N
plays the first N of each policy; --together N the first N of some schedules whose ticks are worked together;
--apart N plays SKIP and REPLACE until each had so many occurrences."""

from __future__ import annotations

import sys
from typing import Any

from tests.schedules.apart import played_apart
from tests.schedules.histories import Broken, History
from tests.schedules.overlap_histories import OverlapHistory
from tests.schedules.together_histories import LATE_TOGETHER, POLICIES, TogetherHistory
from tests.schedules.variants import OVERLAP_VARIANTS, PROFILES, overlap_variant, variant
from timerd.model.overlap import Overlap


def main() -> int:
    if sys.argv[1] == "--apart":
        for policy in (Overlap.SKIP, Overlap.REPLACE):
            print(played_apart(policy, int(sys.argv[2])), flush=True)
        return 0
    if sys.argv[1] == "--together":
        with variant("") as settings:
            for seed in range(int(sys.argv[2])):
                for name, profile in {**PROFILES, "late": LATE_TOGETHER}.items():
                    for policies in POLICIES.values():
                        together = TogetherHistory(seed, {**profile, **settings}, policies)
                        play(together, f"seed {seed}, {name}, {policies}", quiet=True)
        return 0
    if sys.argv[1] == "--many":
        with variant("") as settings:
            for seed in range(int(sys.argv[2])):
                for name, profile in PROFILES.items():
                    for policy in Overlap:
                        history = drawn(seed, policy, {**profile, **settings})
                        play(history, f"seed {seed}, {name}, {policy}", quiet=True)
        return 0
    seed, what = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    if what in OVERLAP_VARIANTS:
        with overlap_variant(what) as (policy, settings):
            return play(drawn(seed, policy, settings), f"seed {seed}")
    if what == "together":
        with variant("") as settings:
            return play(TogetherHistory(seed, settings), f"seed {seed}")
    policy = Overlap(what) if what in [*Overlap] else Overlap.ALLOW
    with variant("" if what in [*Overlap] else what) as settings:
        return play(drawn(seed, policy, settings), f"seed {seed}")


def drawn(seed: int, policy: Overlap, settings: dict[str, Any]) -> History:
    if policy is Overlap.ALLOW:
        return History(seed, **settings)
    return OverlapHistory(seed, overlap=policy, **settings)


def play(history: History | TogetherHistory, name: str, *, quiet: bool = False) -> int:
    try:
        history.play()
    except Broken as broken:
        print("\n".join(history.log), f"{name}: {broken}", sep="\n")
        return 1
    if not quiet:
        print("\n".join(history.log), f"{name}: every promise holds", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
