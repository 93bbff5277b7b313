"""The first hours from a fresh clone, in an environment of its own: `make first-hours`.

    python -m tests.first_hour

What is committed is cloned, and installed by the first person, which needs a package index. The time of each step is
printed.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from tests.docs.blocks import ROOT
from tests.first_hour.people import PEOPLE, spent, told


def main() -> None:
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder) / "timerd"
        subprocess.run(["git", "clone", "--quiet", ROOT, checkout], check=True)
        for number, person in enumerate(PEOPLE):
            desk = spent(person, Path(folder) / f"desk-{number}", checkout, is_fresh=True)
            print(told(person, desk), flush=True)
    print(f"{'all of them':<44}{time.monotonic() - start_s:6.1f} s")


if __name__ == "__main__":
    main()
