"""Histories are short and their workers say one thing at a time. What the core does only where there are many rows, it
does in every second history for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from timerd.core.dispatch import flights
from timerd.core.partition import settled_index
from timerd.services.dispatch import due_looks
from timerd.services.holding import merging


@contextmanager
def sizes_of(seed: int) -> Iterator[None]:
    with ExitStack() as stack:
        if seed % 2:
            stack.enter_context(patch.object(flights, "FEW_ROWS", 1))
            stack.enter_context(patch.object(flights, "MANY_ROWS", 1))
            stack.enter_context(patch.object(settled_index, "FRESH", 3))
            stack.enter_context(patch.object(settled_index, "LARGEST_MERGE", 30))
            stack.enter_context(patch.object(merging, "AHEAD_BYTES", 500))
            # Else each of the few queues is looked at in each round.
            stack.enter_context(patch.object(due_looks, "LOOKED_AT", 0))
        yield
