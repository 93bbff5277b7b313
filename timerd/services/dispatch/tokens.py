"""The ack tokens of what is delivered: a sink gives one with each task, and by it says what became of the task."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from timerd.core.dispatch import digest_column
from timerd.core.taken import Taken
from timerd.model.ack_token import TOKEN, batch_mac, marked

# The MAC of what is sent from one partition comes again in a later delivery.
cached_batch_mac = lru_cache(maxsize=1_000)(batch_mac)


def ack_tokens(taken: Taken, secret: bytes, digests: npt.NDArray[Any] | None = None) -> bytes:
    """64 bytes for each row, joined. `digests`: `digest_column` of the rows, where it is at hand."""
    columns = taken.rows.columns
    out = np.empty(len(columns), TOKEN)
    out["scope"], out["bucket_ms"], out["shard"] = taken.partition
    out["position_ms"] = columns["position_ms"]
    out["version"] = columns["version"]
    out["digest"] = (digest_column(taken) if digests is None else digests).view("V16")
    mark = out["fencing_token"] = marked(taken.token, taken.sending)
    namespace = taken.rows.template_of(0).namespace
    out["mac"] = np.void(cached_batch_mac(secret, namespace, taken.partition, mark))
    return out.tobytes()
