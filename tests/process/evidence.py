"""All that callers and workers wrote down of the tasks that a verdict names: who reads a failure sees its cause."""

from __future__ import annotations

import re
from collections.abc import Iterator

from timerd.demo.records import Logs
from timerd.demo.verdict import Verdict

_MOST_TASKS = 5


def evidence(logs: Logs, verdict: Verdict) -> Iterator[str]:
    """Lines in the order of time, of the first few tasks; then the faults and the breaks of streams."""
    sentences = [each for sentences in verdict.violations.values() for each in sentences]
    named = dict.fromkeys(int(found[1]) for each in sentences if (found := re.match(r"task (\d+)", each)))
    numbers = list(named)[:_MOST_TASKS]
    calls = [(call.answered_ms, call) for call in logs.calls if call.number in numbers]
    deliveries = [(each.received_ms, each) for each in logs.deliveries if each.number in numbers]
    ids = {each.delivery_id for _, each in deliveries}
    confirmed = [(each.confirmed_ms, each) for each in logs.confirmed if each.delivery_id in ids]
    records = sorted([*calls, *deliveries, *confirmed], key=lambda each: each[0])
    yield from (str(record) for _, record in records)
    if numbers:
        yield from map(str, (*logs.kills, *logs.away))
