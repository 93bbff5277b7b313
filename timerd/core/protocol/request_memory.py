"""What calls were answered, under the hashes of their requests: a repeat is answered as the first time and changes
nothing, whatever other calls came in between (guarantee G2).

An answer is a register that is set once. A try that finds one gives that answer, also a try that was held up since
before the first answer; so an answer is set *before* it is given (tests/models/repeats.pml). What is remembered
elsewhere needs none: plain messages with their rows, the moves of a task in its `moves` register.
"""

from __future__ import annotations

from timerd.core.protocol.procedures import Procedure, ReadRegister, TryCas
from timerd.model.errors import Overtaken, StoreUnknown
from timerd.model.instants import shown
from timerd.model.registers import request_key
from timerd.model.storage import Cas, CasResult, CasStatus

# A call is remembered at least so long after it was made.
REQUEST_MEMORY_MS = 24 * 3_600_000
# A call may be made some time before it is carried out.
_MARGIN_MS = 3_600_000
# A call that is carried out so soon was not held up: who made it later is a matter of two clocks.
HELD_UP_MS = 2_000


def recall(request: bytes) -> Procedure[bytes | None]:
    """The answer of the call with that hash; None: no try of it was answered."""
    stored: bytes | None = yield ReadRegister(request_key(request))
    return stored


def remember(request: bytes, answer: bytes, now_ms: int) -> Procedure[bytes]:
    """The answer that stands: this one, or that of another try that was faster."""
    change = Cas(request_key(request), None, answer, now_ms + REQUEST_MEMORY_MS + _MARGIN_MS)
    result: CasResult = yield TryCas(change)
    if result.status is CasStatus.APPLIED:
        return answer
    if result.current is None:
        raise StoreUnknown("It is not known whether the answer of the call was written down.")
    return result.current


def is_overtaken(asked_ms: int, latest_ms: int, now_ms: int) -> bool:
    """Whether a call that was made at `asked_ms` (0: nobody knows when) was held up, and one that was made later, at
    `latest_ms`, came before it. `now_ms` may be from before a try stood still: it is not before the later call."""
    return 0 < asked_ms < min(latest_ms, max(now_ms, latest_ms) - HELD_UP_MS)


def overtaken(what: str, asked_ms: int, latest_ms: int) -> Overtaken:
    """`what` the later call has done."""
    return Overtaken(
        f"A call that was made at {shown(latest_ms)} has {what}, and this one was made before it, at {shown(asked_ms)} "
        "by its caller's clock: nothing of it is carried out. Look at the task, and make a new call if it is still "
        "wanted.",
        "OVERTAKEN",
    )
