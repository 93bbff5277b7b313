"""The words of holding a partition: where its machine stands, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from timerd.model.partition import Partition
from timerd.model.registers import Control
from timerd.model.store_traits import StoreTraits


class Phase(Enum):
    ACQUIRE = "acquire"
    RECOVER = "recover"
    LOAD = "load"
    HOT = "hot"
    # Nothing is sent any more; what is open is carried, what ended is settled.
    HAND_OVER = "hand over"
    # The compare-and-set that names nobody as the holder is on its way.
    RELEASE = "release"
    COUNT = "count"
    DONE = "done"
    LOST = "lost"
    # Not acquired: somebody who lives holds it.
    REFUSED = "refused"
    HANDED_OVER = "handed over"

    @property
    def is_over(self) -> bool:
        return self in (Phase.DONE, Phase.LOST, Phase.REFUSED, Phase.HANDED_OVER)

    @property
    def takes_in(self) -> bool:
        """Rows that were just written."""
        return self in (Phase.LOAD, Phase.HOT, Phase.HAND_OVER, Phase.RELEASE)

    @property
    def is_loaded(self) -> bool:
        """All rows are known, as far as there is memory for them."""
        return self not in (Phase.ACQUIRE, Phase.RECOVER, Phase.LOAD)

    @property
    def counts_ends(self) -> bool:
        """How all that is over ended is known here, and nobody else adds to it."""
        return self.takes_in or self is Phase.COUNT

    @property
    def answers(self) -> bool:
        """All rows are known, and what ends now is still settled."""
        return self in (Phase.HOT, Phase.HAND_OVER)


MayTake = Callable[[Control], bool]


def may_take_any(_: Control) -> bool:
    """On one machine the instance that runs is the holder."""
    return True


class Offered(Enum):
    """The holder's answer to a row whose position may be below `closing`. NOT_NOW: of a row that was stored before, by
    a holder that is still reading its rows, this one perhaps among them. SILENT: as in `Asked`."""

    ADOPTED = "adopted"
    ALREADY_HAVE = "already have"
    BELOW_FLOOR = "below floor"
    NOT_NOW = "not now"
    SILENT = "silent"


class Asked(Enum):
    """The holder's answer to a cancel or a move. UNKNOWN: below the floor, the settle records in the store know.
    SILENT: somebody holds the partition and did not answer in time, which is not to say that nobody holds it."""

    WAITING = "waiting"
    OPEN = "open"
    ENDED = "ended"
    UNKNOWN = "unknown"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class HoldingSettings:
    """`holder`, `address` and `incarnation` go into the control row; `traits` are those of the store."""

    holder: str
    address: str = ""
    incarnation: int = 0
    max_mark_lag_ms: int = 600_000
    # How often `closing` and `verified` may move.
    mark_every_ms: int = 1_000
    # Endings kept in memory because something older is still open; beyond it that is carried.
    max_settled: int = 200_000
    # Only what has been with a worker for so long: where one second has more tasks, what is worked on is not stuck.
    stuck_after_ms: int = 10_000
    carry_batch: int = 1_000
    # A record of what ended is written this often at the most.
    settle_every_ms: int = 5
    # A row that was written late is pointed elsewhere a moment after it was met: it is not called unexplained at once.
    recounts: int = 4
    # Endings by which a task is known that is written once more at another position, where a repeated call may do that:
    # about 200 bytes each, up to twice as many of each partition.
    remembered: int = 16_384
    traits: StoreTraits = field(kw_only=True)

    @property
    def endings_kept(self) -> int:
        """How many endings a holder keeps: none where a repeated call writes nothing."""
        return 0 if self.traits.knows_repeats else self.remembered


def taken_over(
    partition: Partition, current: Control | None, settings: HoldingSettings, now_ms: int, is_finishing: bool = False
) -> Control:
    """The control row with a token of its own: never lower than the wall's seconds, because a restored backup must not
    restart below a token that workers have seen. What nobody has held yet is opened closed where its bucket is being
    finished: the instance that finishes it may have seen to every shard but this one."""
    token = max((current.token if current else 0) + 1, now_ms // 1000)
    closing_ms = partition.end_ms if is_finishing else partition.bucket_ms
    base = current or Control(0, "", "", closing_ms, partition.bucket_ms)
    mine = replace(base, token=token, holder=settings.holder, address=settings.address, successor="")
    return replace(mine, incarnation=settings.incarnation)
