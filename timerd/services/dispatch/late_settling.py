"""What workers say of deliveries that are not open here any more has to be looked for. Streams take turns, a slice at a
time, so that one worker with tens of thousands holds up neither the others nor the loop; each message is confirmed as
soon as its own tokens are found; and what a stream that is gone has said is dropped: its worker says it again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from timerd.core.dispatch import LateFailure, Refusal
from timerd.model.ack_token import parse_token, token_at
from timerd.services.background import begin
from timerd.services.dispatch.ports import Settler
from timerd.services.engine.verbs import Firing, Late, State

# Tokens that are looked for together, of these of one stream in its turn, and how many such slices at a time.
SLICE_TOKENS = 512
SHARE_TOKENS = 128
SLICES_AT_ONCE = 4
BECAME = {
    State.ACKED: "was acknowledged",
    State.DEAD: "became a dead letter",
    State.CANCELLED: "was cancelled",
    State.PURGED: "was purged",
    State.EXPIRED: "has expired",
    State.FINISHED: "ended so long ago that its outcome is no longer kept",
    State.PENDING: "lives on: it was moved, redriven, or sent again since",
}


@dataclass(slots=True, eq=False)
class Owed:
    """One message that is to be confirmed. `late`: what is to be looked for, acks by their places among `tokens`.
    `acked`: delivery ids whose rows are held back until then."""

    settler: Settler
    sequence: int
    tokens: bytes
    refused: dict[int, Refusal]
    late: deque[int | LateFailure] = field(default_factory=deque)
    acked: Sequence[bytes] = ()
    under_way: int = 0
    error: Exception | None = None
    is_reject: bool = False


# (message, what of it).
SettleSlice = list[tuple[Owed, int | LateFailure]]


class LateSettling:
    """`found` hears of each message when all of it has been looked for, `changed` whenever a slice is done."""

    def __init__(self, firing: Firing, found: Callable[[Owed], None], changed: Callable[[], None]) -> None:
        self._firing = firing
        self._found = found
        self._changed = changed
        # Number of the stream -> its messages; whose turn it is comes first.
        self._turns: dict[int, deque[Owed]] = {}
        self._running: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def add(self, message: Owed) -> None:
        self._turns.setdefault(message.settler.number, deque()).append(message)
        if len(self._running) < SLICES_AT_ONCE:
            run = begin(self._run(), "late_settling")
            self._running.add(run)
            run.add_done_callback(self._done)

    def drop(self, stream: int) -> Iterable[Owed]:
        """Nobody waits for these any more. What is under way is finished."""
        return self._turns.pop(stream, ())

    def _done(self, run: asyncio.Task[None]) -> None:
        self._running.discard(run)
        self._changed()

    async def _run(self) -> None:
        while part := self._next():
            await self._look_for(part)
            self._changed()

    def _next(self) -> SettleSlice:
        part: SettleSlice = []
        while self._turns and len(part) < SLICE_TOKENS:
            number = next(iter(self._turns))
            messages = self._turns.pop(number)
            share = min(SHARE_TOKENS, SLICE_TOKENS - len(part))
            while messages and share:
                message = messages[0]
                count = min(share, len(message.late))
                part += [(message, message.late.popleft()) for _ in range(count)]
                message.under_way += count
                share -= count
                if not message.late:
                    messages.popleft()
            if messages:
                self._turns[number] = messages
        return part

    async def _look_for(self, part: SettleSlice) -> None:
        acks = [(message, at) for message, at in part if isinstance(at, int)]
        failures = [(message, late) for message, late in part if isinstance(late, LateFailure)]
        acked, failed = await asyncio.gather(self._end(acks), self._fail([late for _, late in failures]))
        for (message, at), said in zip(acks, acked, strict=True):
            _note(message, at, said, "ack")
        for (message, late), said in zip(failures, failed, strict=True):
            _note(message, late.at, said if late.failure.hopeless or isinstance(said, Exception) else None, "reject")
        for message in dict.fromkeys(message for message, _ in part):
            if not message.late and not message.under_way:
                self._found(message)

    async def _end(self, acks: Sequence[tuple[Owed, int]]) -> Sequence[Late]:
        try:
            return await self._firing.end_late([parse_token(token_at(message.tokens, at)) for message, at in acks])
        except Exception as error:  # noqa: BLE001 - told to who acked them
            return [error] * len(acks)

    async def _fail(self, failures: Sequence[LateFailure]) -> Sequence[Late]:
        return await asyncio.gather(*map(self._fail_one, failures))

    async def _fail_one(self, late: LateFailure) -> Late:
        try:
            return await self._firing.fail_late(late.token, late.failure)
        except Exception as error:  # noqa: BLE001 - told to the worker
            return error


def refusal_of(state: State, said: str) -> Refusal:
    became = BECAME.get(state, BECAME[State.PENDING])
    return Refusal(f"This delivery was over before the {said} came: its task {became}. Nothing was changed.", state)


def _note(message: Owed, at: int, said: Late, action: str) -> None:
    """What fails may pass: the worker says the whole message again, so the rest of it need not be looked for."""
    message.under_way -= 1
    if isinstance(said, Exception):
        message.error = message.error or said
        message.late.clear()
    elif said is not None:
        message.refused[at] = refusal_of(said, action)
