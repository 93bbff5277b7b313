"""Rows that were with a worker before, looked at once more when they are about to fire.

The earlier delivery may still be in hand: then the row is carried to the end of the lease. If it is not, the attempt
that ended silently may have been the last one, or the task may have expired meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from timerd.core.settlement import Failure, letter_of
from timerd.core.taken import Ended, Taken
from timerd.model.identity import RowKey, attempt_of
from timerd.model.settle import Outcome
from timerd.model.storage import DeadLetter

GONE = "the lease ended: the worker that had the last attempt was not heard of again"


@dataclass(slots=True)
class Sifted:
    """`left`: what may be sent. `leases`: row -> lease end. `letters[i]` belongs to `dead[i]`."""

    left: Taken | None
    leases: dict[RowKey, int] = field(default_factory=dict)
    letters: list[DeadLetter] = field(default_factory=list)
    dead: list[Ended] = field(default_factory=list)
    expired: list[Ended] = field(default_factory=list)


def sift(
    batch: Taken,
    suspects: Sequence[int],
    lease_of: Callable[[RowKey], int],
    heard_by_ms: int,
    now_ms: int,
    secret: bytes,
) -> Sifted:
    """`heard_by_ms`: whoever has what was carried with its lease, and has extended it since, is heard of by then."""
    out, gone = Sifted(batch), set[int]()
    columns = batch.rows.columns
    positions, versions = columns["position_ms"].tolist(), columns["version"].tolist()
    kinds = columns["template"].tolist()
    for n in suspects:
        key = RowKey(positions[n], batch.digests[n], versions[n])
        template = batch.rows.templates[kinds[n]]
        until_ms = lease_of(key)
        if until_ms <= now_ms < heard_by_ms and batch.rows.extra_of(n).lease_until_ms:
            until_ms = heard_by_ms
        if until_ms > now_ms:
            out.leases[key] = until_ms
        elif attempt_of(key.version) > template.retry.max_attempts:
            letter = letter_of(batch, n, key, Failure(now_ms, batch.rows.extra_of(n).last_error or GONE), secret)
            out.letters.append(replace(letter, attempts=letter.attempts - 1))
            out.dead.append(Ended(batch.partition, key, Outcome.DEAD))
        elif template.expire_at_ms and template.expire_at_ms <= now_ms:
            out.expired.append(Ended(batch.partition, key, Outcome.EXPIRED))
        else:
            continue
        gone.add(n)
    if gone:
        keep = [n for n in range(len(batch)) if n not in gone]
        rows = batch.rows.select(np.array(keep, dtype=np.intp))
        out.left = Taken(batch.partition, batch.token, rows, [batch.digests[n] for n in keep]) if keep else None
    return out
