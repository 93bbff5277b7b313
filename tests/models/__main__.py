"""`python -m tests.models [--all]`: searches the cases that are not proven as they stand, or all, and notes what the
checker said in `proven.json`. Exit code 0 only if each said what it must."""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from rich.progress import track

from tests.models.cases import BROKEN, HOLDS
from tests.models.checking import MISSING, Verdict, searched
from tests.models.proven import Proven


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.models", description=__doc__)
    parser.add_argument("--all", action="store_true", help="also what is proven already")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="searches at a time")
    given = parser.parse_args()
    if MISSING:
        print(f"{' and '.join(MISSING)} cannot be found: install it.", file=sys.stderr)
        return 2
    proven, wrong = Proven(), 0
    wanted = {**dict.fromkeys(HOLDS, "holds"), **dict.fromkeys(BROKEN, "broken")}
    asked = [case for case in wanted if given.all or proven.said(case) != wanted[case]]

    def search(case: str) -> tuple[str, Verdict]:
        return case, searched(case, holds=wanted[case] == "holds")

    with ThreadPoolExecutor(given.jobs) as pool:
        for case, (said, words) in track(pool.map(search, asked), "searching", total=len(asked), transient=True):
            proven.note(case, said)
            print(words.strip())
            wrong += said != wanted[case]
    print(f"{len(asked)} of {len(wanted)} cases were searched, {wrong} did not say what they must.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
