"""A caller process as that of tests/process/kill9, of the queues of the plan: with ordering keys, and with policies for
what fails."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.chaos.regulated.plan import QUEUES, key_of, queue_of, retry_of
from tests.process.kill9.caller import Caller, main, parsed


class RegulatedCaller(Caller):
    queues: tuple[str, ...] = QUEUES

    def queue_of(self, number: int) -> str:
        return queue_of(number)

    def fields_of(self, number: int) -> dict[str, Any]:
        return {"ordering_key": key_of(number) or None, "retry": retry_of(number)}


if __name__ == "__main__":
    asyncio.run(main(parsed(), RegulatedCaller))
