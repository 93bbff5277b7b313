"""Replays a history of a roster: python -m tests.cycles SEED [VARIANT]; --many N plays the first N; --found N says at
which of N seeds each variant is caught."""

from __future__ import annotations

import sys

from tests.cycles.histories import RosterHistory, played
from tests.cycles.variants import VARIANTS, variant
from tests.schedules.histories import Broken


def main() -> int:
    if sys.argv[1] == "--many":
        with variant("") as settings:
            for seed in range(int(sys.argv[2])):
                played(seed, **settings)
        return 0
    if sys.argv[1] == "--found":
        for name in VARIANTS:
            print(name, found(name, int(sys.argv[2])), flush=True)
        return 0
    with variant(sys.argv[2] if len(sys.argv) > 2 else "") as settings:
        history = RosterHistory(int(sys.argv[1]), **{"changes": 12, **settings})
        try:
            history.play()
        except Broken as broken:
            print("\n".join(history.log), broken, sep="\n")
            return 1
    print("\n".join(history.log))
    return 0


def found(name: str, most: int) -> str:
    with variant(name) as settings:
        for seed in range(most):
            try:
                played(seed, **settings)
            except Broken as broken:
                return f"{seed}: {broken}"
    return "not found"


if __name__ == "__main__":
    sys.exit(main())
