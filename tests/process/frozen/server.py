"""`python -m tests.process.frozen.server GATE serve ...`: the ordinary command, whose commits wait while there is a
file GATE, as on a disk that does not answer. Reads are answered, as the page cache does."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from timerd import cli
from timerd.adapters.sqlite import writer
from timerd.adapters.sqlite.commit import Commit

# So that nobody waits long for it to be noticed.
PATIENCE_S = 0.5
_LOOK_S = 0.005


def freeze_with(gate: Path) -> None:
    writer.STALLED_S = PATIENCE_S
    begin = Commit.begin

    def wait_and_begin(commit: Commit) -> None:
        while gate.exists():
            time.sleep(_LOOK_S)
        begin(commit)

    setattr(Commit, "begin", wait_and_begin)  # noqa: B010 - a method is not assigned to


if __name__ == "__main__":
    freeze_with(Path(sys.argv[1]))
    cli.main(sys.argv[2:])
