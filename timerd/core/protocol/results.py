"""What tasks have come to: the result that a worker has acknowledged one with.

R1: the result is durable, *then* the end of the task is recorded; so who finds a task acknowledged finds its result. It
is a register that is set once: an ack that is said again, or a late one of an earlier attempt, changes nothing that
somebody may have read.
"""

from __future__ import annotations

from timerd.core.protocol.procedures import Procedure, ReadRegister, TryCas
from timerd.model.errors import StoreUnknown
from timerd.model.registers import result_key
from timerd.model.storage import Cas, CasResult, CasStatus


def keep_result(delivery_id: bytes, result: bytes, until_ms: int) -> Procedure[None]:
    """Of that life of a task. Raises StoreUnknown."""
    said: CasResult = yield TryCas(Cas(result_key(delivery_id), None, result, until_ms))
    if said.status is not CasStatus.APPLIED and said.current is None:
        raise StoreUnknown("It is not known whether the result of the task was written down.")


def kept_result(delivery_id: bytes) -> Procedure[bytes | None]:
    """None: there is none, or it is no longer kept."""
    stored: bytes | None = yield ReadRegister(result_key(delivery_id))
    return stored
