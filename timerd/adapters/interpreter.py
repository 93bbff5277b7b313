"""How the interpreter is set up for a process that fires."""

from __future__ import annotations

import gc
import sys

# The collector looks at young objects this often: columns make little garbage, and a look holds up firing.
GC_THRESHOLD = 50_000
# A thread that waits for the interpreter gets it after so long.
SWITCH_S = 0.0005


def tune() -> None:
    """What was made at the start is never collected; a thread gives the interpreter up soon."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    sys.setswitchinterval(SWITCH_S)
