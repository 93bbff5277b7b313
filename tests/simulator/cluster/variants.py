"""The protocol between instances with one rule broken at a time: each must be caught.

Patches for tests alone, as in tests/simulator/variants.py, whose broken rules of one holder are broken here as well.
"""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, cast
from unittest.mock import patch

from tests.property.world import done
from tests.simulator.cluster import switches_of_marks, switches_of_places, switches_of_tasks
from tests.simulator.cluster.store import RemoteStore
from tests.simulator.variants import VARIANTS as ONE
from tests.simulator.variants import (
    Variant,
    ack_confirmed_before_it_is_durable,
    cancel_without_asking,
    closing_read_before_the_write,
    fires_before_its_first_page,
    leases_forgotten_at_a_carry,
    settle_record_skipped,
    settle_records_not_read,
)
from timerd.core.dispatch.delivery_machine import DeliveryMachine
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.protocol.procedures import AskToEnd, HolderAnswer
from timerd.model.partition import Partition
from timerd.model.registers import Control, Table
from timerd.model.storage import Cas, CasResult, CasStatus
from timerd.services.holding import own_machines
from timerd.services.peers.fresh_controls import FreshControls
from timerd.services.peers.peer_service import PeerService
from timerd.services.peers.peer_wire import partition_of
from timerd.services.peers.peers import Silent
from timerd.services.peers.remote_holders import RemoteHolders

_CAS, _FRESH, _TOLD = RemoteStore._cas, FreshControls.of, RemoteHolders.ask_to_end


def marks_not_refused() -> AbstractContextManager[object]:
    """The store takes a control row in by whatever token it is written."""

    def cas(self: RemoteStore, changes: Sequence[Cas]) -> Sequence[CasResult]:
        current = done(self._disk.read([change.key for change in changes]))
        blind = [
            change if change.key.table is not Table.CONTROL else Cas(change.key, stored, change.value)
            for change, stored in zip(changes, current, strict=True)
        ]
        return _CAS(self, blind)

    return patch.object(RemoteStore, "_cas", cas)


def holder_by_an_old_control_row() -> AbstractContextManager[object]:
    """Who held a partition once is asked for ever."""

    async def of(self: FreshControls, partition: Partition) -> Control | None:
        known: dict[Partition, Control] = self.__dict__.setdefault("known", {})
        if partition not in known:
            control = await _FRESH(self, partition)
            if control is None or not control.holder:
                return control
            known[partition] = control
        return known[partition]

    stack = ExitStack()
    stack.enter_context(patch.object(FreshControls, "of", of))
    stack.enter_context(any_token())
    return stack


def any_token() -> AbstractContextManager[object]:
    """An instance answers for what it holds, by whatever token it is asked; and holds what it was asked for."""

    def holds(self: PeerService, holding: Any) -> bool:
        return self._own.token(partition_of(holding.partition)) is not None

    return patch.object(PeerService, "_holds", holds)


def silence_is_nobody() -> AbstractContextManager[object]:
    """A holder that does not answer is taken for one that is not there."""

    async def ask(self: RemoteHolders, partition: Partition, asks: Sequence[AskToEnd]) -> list[HolderAnswer]:
        real = self._of_holder

        async def of_holder(*args: Any) -> Any:
            try:
                return await real(*args)
            except Silent:
                return None

        with patch.object(self, "_of_holder", of_holder):
            return await _TOLD(self, partition, asks)

    return patch.object(RemoteHolders, "ask_to_end", ask)


def holder_elsewhere_not_asked() -> AbstractContextManager[object]:
    async def ask(self: RemoteHolders, partition: Partition, asks: Sequence[AskToEnd]) -> list[HolderAnswer]:
        return [HolderAnswer(None)] * len(asks)

    return patch.object(RemoteHolders, "ask_to_end", ask)


def credit_lent_is_kept() -> AbstractContextManager[object]:
    """The home goes on giving out what it has lent."""
    return patch.object(DeliveryMachine, "lend", lambda *_: None)


def refused_holder_goes_on() -> AbstractContextManager[object]:
    """A mark that is refused ends nothing."""
    real = PartitionMachine.control_changed

    def changed(self: PartitionMachine, status: CasStatus, now_ms: int) -> Any:
        return real(self, CasStatus.APPLIED if status is CasStatus.REFUSED else status, now_ms)

    return patch.object(PartitionMachine, "control_changed", cast(Any, changed))


def word_said_before_it_is_durable() -> AbstractContextManager[object]:
    """How a worker has ended a task is said to who asks for another one, while a crash still takes it back."""
    return patch.object(own_machines, "_contradicts", lambda *_: False)


# Those of one holder, too.
ALONE = {
    name: ONE[name]
    for name in (
        "mark-before-scan",
        "floor-late",
        "cancelled-forgotten",
        "row-before-record",
        "mark-passes-carry",
        "move-unasked",
        "target-unasked",
    )
}
VARIANTS: dict[str, Variant] = {
    "correct": nullcontext,
    "marks-not-refused": marks_not_refused,
    "old-control-row": holder_by_an_old_control_row,
    "silence-is-nobody": silence_is_nobody,
    "not-asked-elsewhere": holder_elsewhere_not_asked,
    "credit-twice": credit_lent_is_kept,
    "refused-goes-on": refused_holder_goes_on,
    "records-not-read": settle_records_not_read,
    "hot-before-page": fires_before_its_first_page,
    "settle-skipped": settle_record_skipped,
    "read-first": closing_read_before_the_write,
    "lease-forgotten": leases_forgotten_at_a_carry,
    "cancel-unasked": cancel_without_asking,
    "ack-early": ack_confirmed_before_it_is_durable,
    "word-early": word_said_before_it_is_durable,
    **ALONE,
    **switches_of_marks.SWITCHES,
    **switches_of_tasks.SWITCHES,
    **switches_of_places.SWITCHES,
}
# Switches of the models that have another name above, and those that there is nothing to break for.
NAMED = {
    "closing READFIRST": "read-first",
    "closing SCANFIRST": "mark-before-scan",
    "closing NOFENCE": "marks-not-refused",
    "closing FLOORLATE": "floor-late",
    "finish FLAGFIRST": "finish OPENFOREVER",
    "cancel CACHEDROUTE": "old-control-row",
    "cancel NOSET": "cancelled-forgotten",
    "cancel HINTBEFORELOAD": "hot-before-page",
    "moves TARGETBLIND": "target-unasked",
    "moves DECIDEBLIND": "move-unasked",
    "moves CANCELNOLOOP": "moves CANCELREADFIRST",
    "carry ROWFIRST": "row-before-record",
    "carry PASSEARLY": "mark-passes-carry",
    "carry LEASEBLIND": "lease-forgotten",
    "carry CONFIRMEARLY": "ack-early",
    "carry NOCLOSING": "closing NOCHECK",
}
NOTHING_TO_BREAK = {
    "cancel NOMERGECHECK": "the model passes: that check saves memory only",
    "cancel PRELOADBLIND": "a successor reads its first page after its token is in the store, there is no preload",
    "finish NOOPENER": "it makes the model smaller",
    "closing NOHINT": "it makes the model smaller",
    "moves NOCANCEL": "it makes the model smaller",
    "moves INTURN": "it makes the model smaller",
    "moves EXPIREATTARGET": "a history lasts minutes, and registers expire after a day",
    "moves EXPIRENOSOURCE": "a history lasts minutes, and registers expire after a day",
    "moves EXPIREONCE": "a history lasts minutes, and registers expire after a day",
    "moves NOSOURCE": "rows of superseded generations are told apart by `source`, which one line cannot take away",
    **dict.fromkeys(
        (
            *("places READFIRST", "places FLOORMOVES", "places OVERCOUNTS", "places LOOKFIRST", "places ROWFIRST"),
            *("places OWNPLACE", "places SILENTMOVES"),
        ),
        "a few histories in a thousand come by; tests/unit/test_message_place.py stops tries at each step",
    ),
    **dict.fromkeys(
        (
            *("pointing POINTLATE", "pointing POINTTHERE", "pointing MARKSSTAY", "pointing MARKSFIRST"),
            *("pointing ROWSONLY", "pointing LOOKONCE"),
        ),
        "no task has an id before its row but those of schedules: tests/schedules breaks these rules",
    ),
    **dict.fromkeys(
        (
            *(
                "repeats AWAYLATE",
                "repeats BLINDRETRY",
                "repeats KEYS",
                "repeats LOOKAPART",
            ),
            *(
                "repeats NOAWAY",
                "repeats NOKEEP",
                "repeats NOLOOK",
                "repeats NOORDER",
            ),
            *(
                "repeats NOTARGET",
                "repeats NOTIME",
                "repeats TARGETBLIND",
            ),
        ),
        "calls with keys and moves are not repeated here yet; tests/fundamentals/test_repeats.py repeats them",
    ),
    **dict.fromkeys(
        (
            *("rates BEGINASKED", "rates ENDHEARD", "rates FULLBURST", "rates GHOST", "rates LIFEPAUSE"),
            *("rates NOAFTER", "rates NOEND", "rates NOPAUSE", "rates FORGETBEGUN"),
        ),
        "tests/simulator/cluster/rated.py and tests/property/test_drawn_tokens.py have rates, and leave rules out",
    ),
    **dict.fromkeys(
        (
            *("cuts ALLCOMES", "cuts ASKSMEMORY", "cuts BOTH", "cuts HINTCOMES", "cuts KEEPSLAST", "cuts MARKBLIND"),
            *("cuts METANDLEFT", "cuts NEWCOMES", "cuts ONEPLACE", "cuts OPENCOMES", "cuts OVERCOMES"),
            *("cuts PLACEAFTER", "cuts POPALL"),
        ),
        "memory is a matter of one instance: tests/simulator/narrow.py and tests/property/test_key_cuts.py",
    ),
    **dict.fromkeys(
        (
            *("keyed ADOPTSILENT", "keyed ASKEDONCE", "keyed CAPONLY", "keyed FEWFIRST", "keyed LATECOUNTS"),
            *("keyed SAIDONCE", "keyed UNHEARD"),
        ),
        "tests/simulator/cluster/lent_keys.py and tests/property/test_lent_keys.py leave rules of such limits out",
    ),
    "carry DONEWINS": "two holders that settle one row differently are the model checker's matter alone so far",
    "carry CARRIEDWINS": "two holders that settle one row differently are the model checker's matter alone so far",
    "carry RESENDOLD": "two holders that settle one row differently are the model checker's matter alone so far",
    "carry FORKCOUNTS": "it changes the promise, not the protocol",
    **dict.fromkeys(
        (
            *(
                "schedules ACKFIRST",
                "schedules BLINDINSERT",
                "schedules BLINDUPDATE",
                "schedules CASFIRST",
                "schedules CREATE",
            ),
            *(
                "schedules EARLYNEW",
                "schedules EARLYOK",
                "schedules HALFHELP",
                "schedules LASTONLY",
                "schedules NOFENCE",
            ),
            *("schedules NOINSERT", "schedules NORET", "schedules NOTAKEN", "schedules NOUPDATE", "schedules NOVOID"),
            *("schedules OLDTICKENDS", "schedules ONE", "schedules PAUSE", "schedules RECOMPUTE", "schedules ROWFIRST"),
            *("schedules SPEC2", "schedules TICKFIRST"),
            *("overlap BUFFER", "overlap CLOCKLATE", "overlap EARLYSKIP", "overlap LOOKFIRST", "overlap NOPOLL"),
            *("overlap CANCELS", "overlap NORETURN", "overlap TRIGGERBLIND", "overlap UNDURABLE"),
            *("delay CLOCKFIRST", "delay LOOKFIRST", "delay NOPOLL", "delay RECOMPUTE", "delay ROWFIRST"),
            *("delay TRIGGER", "delay TRIGGERBLIND", "delay UNDURABLE"),
        ),
        "tests/schedules plays histories of schedules of its own, with each rule broken",
    ),
    **dict.fromkeys(
        (
            *("zones LOOKFIRST", "zones MOVE", "zones NOMARK", "zones NONUMBER", "zones NORESUME", "zones NOVOID"),
            *("zones NOWIND", "zones OLDCOMPUTES", "zones PROGRESSFIRST", "zones SWEEPFIRST"),
        ),
        "its histories have no schedules: tests/schedules/test_zones.py stops a sweep and calls beside it at each step",
    ),
    **dict.fromkeys(
        (
            *("cycle ACKFIRST", "cycle ADD", "cycle ADDBLIND", "cycle AGAIN", "cycle BLINDINSERT", "cycle BOTH"),
            *("cycle CANCELFIRST", "cycle EARLYOK", "cycle LOOKFIRST", "cycle NOLOOK", "cycle NOSTICK"),
            *("cycle READFIRST", "cycle READONE", "cycle REMLOOKFIRST", "cycle REMOVE"),
        ),
        "its histories have no cycles: tests/cycles plays histories of rosters of its own, with each rule broken",
    ),
    **dict.fromkeys(
        (
            *("outbox DONEFIRST", "outbox HELDKEY", "outbox NOSEAL", "outbox NOTIME", "outbox OVERTAKE"),
            *("outbox RESEAL", "outbox SHUT", "outbox SHUTFINAL", "outbox TWOSTEPS", "outbox CHAIN"),
            "outbox SIDEBYSIDE",
        ),
        "an outbox is in front of the server, whose part is to know a repeat: tests/outbox kills relays and databases",
    ),
    **dict.fromkeys(
        (
            *(
                "limits ADOPTBLIND",
                "limits CAPONLY",
                "limits DEATHBLIND",
                "limits FREELOST",
                "limits LEAK",
                "limits NOREPORT",
            ),
            *("limits NOVOID", "limits NOWAIT", "limits OLDRETURN", "limits TWICE"),
        ),
        "no history here has limits: tests/property/test_lent_permits.py breaks these rules",
    ),
    **dict.fromkeys(
        (
            *("order ACCEPTBLIND", "order ACKFREES", "order CLOCKORD", "order EARLYNEXT", "order LANEBLIND"),
            *("order LATEACCEPT", "order LEAVEBLIND", "order LEAVEEARLY", "order LOADFIRST", "order NOLEASE"),
            *("order ORDERONLY", "order PARTBLIND", "order RETRYMOVES", "order UNKNOWNOK"),
            *("failure ENDFIRST", "failure GOFIRST", "failure HALT", "failure KEEPSPLACE", "failure NOTEALONE"),
            *("failure NOTEEARLY", "failure NOTEGOES", "failure SKIPSALIVE"),
            *("failure NOTESBLIND", "failure PASS", "failure PASSEARLY", "failure RESUMEANY"),
        ),
        "no history here has ordering keys: tests/property/test_ordering_keys.py has them on one instance",
    ),
    **dict.fromkeys(
        (
            *("shards ACKFREES", "shards ANNOUNCED", "shards HALT", "shards HANDSBLIND", "shards LEAVEBLIND"),
            *("shards METBLIND", "shards NOTESBLIND", "shards NOTESOLD", "shards OKFIRST", "shards OWEDBLIND"),
            *("shards PARTBLIND", "shards STORED", "shards UNCLOSED", "shards DEADFREES"),
            *("redrives ALLBEFORE", "redrives EACHWAITS", "redrives NOTEGOES", "redrives NOTEOFTASK"),
        ),
        "no history here has ordering keys: tests/simulator/cluster/ordered.py, tests/unit/test_key_shards.py and "
        "tests/unit/test_halting_in_cluster.py do",
    ),
}
