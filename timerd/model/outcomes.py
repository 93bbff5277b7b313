"""Which mark says of a row which outcome."""

from __future__ import annotations

from timerd.model.settle import Outcome
from timerd.model.storage import MarkKind

OUTCOME_OF_MARK = {
    MarkKind.CANCELLED: Outcome.CANCELLED,
    MarkKind.PURGED: Outcome.PURGED,
    MarkKind.ACKED: Outcome.ACKED,
}
MARK_OF_OUTCOME = {outcome: kind for kind, outcome in OUTCOME_OF_MARK.items()}
