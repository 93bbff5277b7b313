"""Which mark says of a row which outcome.

What has expired is marked as what was cancelled is, by a value that no call has: so of the two the first one stands,
and a release that does not know the value sends the row no more than this one.
"""

from __future__ import annotations

from timerd.model.settle import Outcome
from timerd.model.storage import Mark, MarkKind

OUTCOME_OF_MARK = {
    MarkKind.CANCELLED: Outcome.CANCELLED,
    MarkKind.PURGED: Outcome.PURGED,
    MarkKind.ACKED: Outcome.ACKED,
}
MARK_OF_OUTCOME = {outcome: kind for kind, outcome in OUTCOME_OF_MARK.items()}
# Who ends what has expired, in the place of the hash of a call.
BY_EXPIRY = b"expired"


def outcome_of(mark: Mark) -> Outcome | None:
    """None: it ends nothing."""
    if mark.kind == MarkKind.CANCELLED and mark.value == BY_EXPIRY:
        return Outcome.EXPIRED
    return OUTCOME_OF_MARK.get(mark.kind)


def mark_kind(outcome: Outcome) -> MarkKind | None:
    """None: no mark says so."""
    return MarkKind.CANCELLED if outcome is Outcome.EXPIRED else MARK_OF_OUTCOME.get(outcome)
