"""Replays a history of a schedule: python -m tests.schedules SEED [VARIANT]; --many N plays the first N."""

from __future__ import annotations

import sys

from tests.schedules.histories import Broken, History
from tests.schedules.variants import PROFILES, variant


def main() -> int:
    if sys.argv[1] == "--many":
        with variant("") as settings:
            for seed in range(int(sys.argv[2])):
                for name, profile in PROFILES.items():
                    play(History(seed, **{**profile, **settings}), f"seed {seed}, {name}", quiet=True)
        return 0
    with variant(sys.argv[2] if len(sys.argv) > 2 else "") as settings:
        return play(History(int(sys.argv[1]), **settings), f"seed {sys.argv[1]}")


def play(history: History, name: str, *, quiet: bool = False) -> int:
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
