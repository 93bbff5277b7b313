"""Results on the wire: what workers acknowledge tasks with, and callers get."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from timerd.model.ack_token import is_genuine_token, parse_token
from timerd.model.errors import Invalid
from timerd.model.identity import RowKey, delivery_id_of
from timerd.services.calls.fields import plain_text
from timerd.services.calls.templates import MAX_CONTENT_TYPE_CHARS, MAX_KEEP_RESULT_MS
from timerd.services.engine.verbs import State, TaskView, Verbs
from timerd.services.engine.waits import WAITS_AT_ONCE
from timerd.v1.task_pb2 import Result

MAX_RESULT_BYTES = 64 * 1024


class KeptResults:
    """Of the tasks of all namespaces. `kept` is told the digests of tasks and what is kept of their first attempts: by
    that callers are answered (task_ends.py)."""

    def __init__(self, verbs: Verbs, kept: Callable[[bytes, bytes], None]) -> None:
        self._verbs = verbs
        self._kept = kept

    async def keep(self, namespace: str, tokens: Sequence[bytes], result: Result, keep_ms: int) -> None:
        """Durably, of each delivery that the tokens name; one that is not of this server names none. Raises what the
        store raises."""
        packed, secret = result.SerializeToString(), self._verbs.secret
        mine = [parse_token(each).key for each in tokens if is_genuine_token(each, secret, namespace)]
        for at in range(0, len(mine), WAITS_AT_ONCE):
            part = mine[at : at + WAITS_AT_ONCE]
            await asyncio.gather(*(self._verbs.keep_result(_delivery_id(key), packed, keep_ms) for key in part))
            for key in part:
                if key.version == 0:
                    self._kept(key.digest, packed)

    async def of(self, view: TaskView) -> Result | None:
        """None: it has none, or none is kept."""
        if view.state is not State.ACKED or view.template is None or not view.template.keep_result_ms:
            return None
        packed = await self._verbs.kept_result(view.delivery_id)
        return Result.FromString(packed) if packed is not None else None


def _delivery_id(key: RowKey) -> bytes:
    """The same over all attempts, and another one after a move and a redrive: an ack that is refused for these says
    something of a life that is over."""
    return delivery_id_of(key.digest, key.version)


def check_result(result: Result, keep_ms: int, *, is_ack: bool, field: str) -> None:
    """Raises Invalid."""
    if not is_ack:
        raise Invalid("Only an ACK has a result: leave it out, or acknowledge.", field)
    if len(result.value) > MAX_RESULT_BYTES:
        raise Invalid(
            f"The result has {len(result.value):,} bytes: at most {MAX_RESULT_BYTES:,} are kept. Keep large content "
            "elsewhere and answer where to find it.",
            field,
        )
    if not 1 <= keep_ms <= MAX_KEEP_RESULT_MS:
        raise Invalid("Say for how long the result is kept, as the delivery said it: keep_result.", field)
    plain_text(result.content_type, MAX_CONTENT_TYPE_CHARS, "content_type", f"{field}.content_type")
