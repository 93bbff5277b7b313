"""A popular minute: 700,000 tasks within it, 11,600 a second, beside a queue with 2,000 a second.

What a popular second asks for a moment is asked here for as long as many settle records and marks take; and judged as
it is there. How a bucket of such minutes ends is asked by the full bucket.
"""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.figures import Figure
from benchmarks.measures.hot_second import beside

TITLE = "A minute with 700,000 tasks"
TASKS = 700_000
SPAN_S = 60.0
AFTER_S = 5.0
LONG = True


async def run(bench: Bench) -> list[Figure]:
    return await beside(bench, TASKS, SPAN_S, AFTER_S)
