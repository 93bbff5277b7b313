"""The body of a good answer as the result of a task that keeps one, as what a handler returns is."""

from __future__ import annotations

import asyncio
import logging
from string import printable

from timerd.model.errors import TimerdError
from timerd.model.webhooks import HttpAnswer
from timerd.services.calls.results import MAX_RESULT_BYTES, KeptResults
from timerd.services.calls.templates import MAX_CONTENT_TYPE_CHARS
from timerd.v1.task_pb2 import Result

# So much of an answer is read: one byte more than is kept tells the answer that is too long.
READ_BYTES = MAX_RESULT_BYTES + 1
# A store that is away is asked again after this time. Its task is in hand meanwhile.
AGAIN_AFTER_S = 1.0
_PLAIN = frozenset(printable[:95])
_log = logging.getLogger("timerd.webhooks")


def result_of(answer: HttpAnswer) -> Result | None:
    """None: the answer says nothing, or more than is kept. A part of it would be taken for the whole."""
    if not answer.body or len(answer.body) > MAX_RESULT_BYTES:
        return None
    content_type = answer.content_type
    is_plain = len(content_type) <= MAX_CONTENT_TYPE_CHARS and _PLAIN.issuperset(content_type)
    return Result(value=answer.body, content_type=content_type if is_plain else "")


async def keep_durably(results: KeptResults, namespace: str, token: bytes, result: Result, keep_ms: int) -> None:
    """Returns when it is durable, so that who finds the task acknowledged finds its result. To post the task again
    because the store is away would do twice what the receiver has done."""
    while True:
        try:
            await results.keep(namespace, [token], result, keep_ms)
            return
        except TimerdError as failed:
            _log.warning("the answer to a webhook is not durable yet, and is written again: %s", failed)
            await asyncio.sleep(AGAIN_AFTER_S)
