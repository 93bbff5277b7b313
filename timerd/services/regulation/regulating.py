"""The rules of queues on one instance: read before anything is sent, and every ten seconds, told by others meanwhile,
and changed for those who ask (rules Q1 and Q2 of docs/understand/protocol.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from timerd.core.regulation import (
    HeldBack,
    Identity,
    KeyAtLimit,
    KnownRules,
    RuleChange,
    RuleLimits,
    SharedKeyLimits,
    Standstills,
    change_rules,
    labels_of,
    list_regulated,
    read_all_rules,
    read_rules,
)
from timerd.core.taken import QueueKey
from timerd.model.codec import (
    ADAPTS,
    DRAWS,
    DRAWS_KEYS,
    EXPIRES_AFTER,
    KEEPS_RESULTS,
    KEY_SHARDS,
    LENDS,
    LENDS_KEYS,
    ON_DEMAND,
    ON_END,
    PLACES,
    REGULATES,
    SHARES_KEYS,
    STALLS,
    known_by_all,
    with_need,
    without_need,
)
from timerd.model.errors import Precondition, QueueShut, Unavailable
from timerd.model.named_limits import LimitName, NamedLimit
from timerd.model.regulations import DEFAULT_SHARE, Mode, Order, QueueLimit, Regulation, counts_hands
from timerd.services.holding.driving import Performs, drive
from timerd.services.holding.membership import Membership
from timerd.services.holding.tries import surely
from timerd.services.regulation.borrowing import Borrowing
from timerd.services.regulation.drawing import Drawing
from timerd.services.regulation.key_borrowing import KeyBorrowing
from timerd.services.regulation.key_drawing import KeyDrawing
from timerd.services.regulation.placing import Placing
from timerd.services.regulation.told import RuleTelling

READ_EVERY_MS = 10_000
LOOK_S = 0.25
# A caller that is refused because nothing was read yet comes again then.
SOON_MS = 250
_UNDERSTANDING = {
    REGULATES: "goes by the rules of queues",
    EXPIRES_AFTER: "knows expire_after",
    PLACES: "knows the places of cycles",
    KEEPS_RESULTS: "knows keep_result",
    STALLS: "knows stall_timeout",
    ON_END: "knows on_end",
    ON_DEMAND: "knows on_demand",
    ADAPTS: "knows adaptive limits",
}


class Regulating:
    """Of one instance. `others`: where there are any. `opened`: is told of queues that may send now, and others.
    `boot_ms`: a clock that is never set. `placing`: of what workers bring from before, where limits are counted.
    `borrowing`: of the permits of limits, `drawing`: of the tokens of their rates, `key_borrowing`: of the permits of
    limit keys, `key_drawing`: of the tokens of theirs, where there are other instances.
    `still`: what holds queues back beside their rules. `keys`: what their limit keys may do.
    `by_deadlines`: is told whether a queue goes by these."""

    def __init__(
        self,
        known: KnownRules,
        limits: RuleLimits,
        runner: Performs,
        membership: Membership,
        others: RuleTelling | None,
        opened: Callable[[Collection[QueueKey]], None],
        boot_ms: Callable[[], float],
        still: Standstills,
        placing: Placing | None = None,
        keys: SharedKeyLimits | None = None,
        borrowing: Borrowing | None = None,
        drawing: Drawing | None = None,
        key_borrowing: KeyBorrowing | None = None,
        key_drawing: KeyDrawing | None = None,
        by_deadlines: Callable[[QueueKey, bool], None] = lambda _, __: None,
    ) -> None:
        self.known = known
        self.still = still
        self.limits = limits
        self._runner = runner
        self._membership = membership
        self.others = others
        self._opened = opened
        self._boot_ms = boot_ms
        self._placing = placing
        self.key_limits = keys
        self.borrowing = borrowing
        self.drawing = drawing
        self.key_borrowing = key_borrowing
        self.key_drawing = key_drawing
        self._by_deadlines = by_deadlines
        self._read_at_ms = -float("inf")

    # -- what this instance goes by -------------------------------------------------------------------------------

    async def begin(self) -> None:
        """It has joined: from here on it hears what is changed."""
        self._membership.on_lapse(self.known.lapse)
        if self._placing is not None:
            self._placing.begin()
        if self.borrowing is not None:
            self.borrowing.begin()
        if self.key_borrowing is not None:
            self.key_borrowing.begin()
        if self.drawing is not None:
            self.drawing.begin()
        if self.key_drawing is not None:
            self.key_drawing.begin()
        await self.step()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(LOOK_S)

    async def step(self) -> None:
        """What is due now."""
        if not self.known.is_read or self._boot_ms() >= self._read_at_ms + READ_EVERY_MS:
            await surely(self._read())
        if self._placing is not None and not self._placing.is_done() and self.known.counts_hands():
            await surely(self._placing.step())
            self._opened(self.limits.changed())
        if self.drawing is not None and self.known.is_read:
            self.drawing.step()
        if self.key_drawing is not None and self.known.is_read:
            self.key_drawing.step()
        if self.borrowing is not None and self.known.is_read:
            await surely(self.borrowing.step())
        if self.key_borrowing is not None and self.known.is_read:
            await surely(self.key_borrowing.step())

    async def leave(self) -> None:
        """This instance sends nothing more: others may send by its limits."""
        if self.drawing is not None:
            self.drawing.leave()
        if self.key_drawing is not None:
            self.key_drawing.leave()
        if self.borrowing is not None:
            await surely(self.borrowing.leave())
        if self.key_borrowing is not None:
            await surely(self.key_borrowing.leave())

    async def _read(self) -> None:
        life, began_ms = self.known.life, self._boot_ms()
        found = await drive(read_all_rules(self._identity()), self._runner)
        if found is not None:
            self._read_at_ms = began_ms
            self._open(self.known.read(found, life))

    def _identity(self) -> Identity:
        return (self._membership.name, self._membership.incarnation) if self.others is not None else None

    def heard_limit(self, name: LimitName, kept: NamedLimit) -> None:
        """As `heard`, of a limit with a name."""
        if self.known.heard_limit(name, kept):
            self._open(self.known.listed_by(name))

    def heard(self, queue: QueueKey, rules: Regulation) -> None:
        """Another instance has changed them. When this returns, this one goes by them."""
        if self.known.heard(queue, rules):
            self._open([queue])

    def _open(self, queues: Collection[QueueKey]) -> None:
        """And all that were held back by limits: these may be others by now."""
        for queue in queues:
            self._by_deadlines(queue, self.known.of(queue).order == Order.EDF)
        if queues:
            opened = {*queues, *self.limits.changed()}
            if self.key_limits is not None:
                opened = self.key_limits.opened(opened)
            self._opened(opened)

    def check_intake(self, queue: QueueKey, now_ms: int) -> None:
        """Raises QueueShut where the queue takes no new tasks in, and Unavailable where that is not known yet."""
        if not self.known.was_read:
            raise Unavailable(
                "The server has just started and has not read yet which queues take tasks in: try again in a moment.",
                "STARTING",
                retry_after_ms=SOON_MS,
            )
        mode = self.known.mode(queue, now_ms)
        if not mode.takes_in:
            raise QueueShut(_refusal(queue, self.known.of(queue), mode), "QUEUE_SHUT", field="template.queue")

    def opens_ms(self, queue: QueueKey, now_ms: int) -> float:
        """When rows of the queue may be sent, as far as its rules go."""
        return self.known.opens_ms(queue, now_ms)

    def held_back(self, queue: QueueKey, now_ms: int, limit_key: str = "") -> Sequence[HeldBack]:
        """By what, and until when, the longest first. None of them: it allows one more of the key now."""
        keyed = self.key_limits.held_back(queue, limit_key, now_ms) if self.key_limits is not None else ()
        still = self.still.held_back(queue, now_ms)
        others = [*keyed, *([still] if still is not None else [])]
        return sorted([*self.limits.held_back(queue, now_ms), *others], reverse=True)

    def held_until_ms(self, queue: QueueKey, limit: str, now_ms: int) -> int | None:
        """By a handler that was throttled; `limit`: empty for the queue's own. None: it is not held."""
        return self.still.holds.held_until_ms(labels_of(queue, limit), now_ms)

    def keys_at_limit(self, name: LimitName, now_ms: int) -> Sequence[KeyAtLimit]:
        """Limit keys that may start nothing by it now; of a limit that all keys have together: none."""
        return self.key_limits.at_limit(name, now_ms) if self.key_limits is not None else ()

    def in_hand(self, name: LimitName) -> int:
        """Deliveries that workers have of the queues that list a limit."""
        return self.limits.in_hand_of(self.known.listed_by(name))

    # -- what operators ask ---------------------------------------------------------------------------------------

    async def get(self, queue: QueueKey) -> Regulation:
        return await drive(read_rules(queue), self._runner)

    async def page(self, namespace: str, after: str, limit: int) -> Sequence[tuple[QueueKey, Regulation]]:
        return await drive(list_regulated(namespace, after, limit), self._runner)

    async def change(
        self, queue: QueueKey, request: str, revision: int, decide: RuleChange
    ) -> tuple[Regulation, Sequence[str]]:
        """The rules in force, and the instances that did not say that they go by them. Raises Aborted, Precondition."""
        self.check_releases(REGULATES)
        rules = await drive(change_rules(queue, request, revision, decide), self._runner)
        self.heard(queue, rules)
        return rules, await self.others.tell(queue, rules) if self.others is not None else ()

    def limits_named(self, names: Collection[LimitName]) -> list[QueueLimit]:
        """As they are known here."""
        kept = map(self.known.limit, names)
        return [each.limit for each in kept if each is not None and each.limit is not None]

    def limits_of_keys(self, names: Collection[LimitName]) -> list[QueueLimit]:
        """As they are known here, of those that each limit key has for itself."""
        kept = map(self.known.limit, filter(self.known.is_keyed, names))
        return [limit for each in kept if each is not None for limit in each.each()]

    def check_limits(self, limits: Sequence[QueueLimit], *, of_keys: bool = False) -> None:
        """Of who changes limits, or lists them. `of_keys`: also some that each limit key has for itself. Raises
        Precondition where nobody could keep to them."""
        if self.others is None:
            return
        announced = self._membership.announced()
        if of_keys and LENDS_KEYS not in known_by_all(announced):
            raise _not_in_cluster(
                f"Not every instance borrows what it sends by limits of limit keys: {_older(announced, LENDS_KEYS)} is "
                "of an older release, and would count for itself. Upgrade it, then repeat the call; nothing was "
                "changed.",
                "keys",
            )
        if LENDS not in known_by_all(announced):
            raise _not_in_cluster(
                f"Not every instance borrows what it sends by a limit: {_older(announced, LENDS)} is of an older "
                "release, and would count for itself. Upgrade it, then repeat the call; nothing was changed.",
                "limit",
            )
        if any(limit.rate for limit in limits) and DRAWS not in known_by_all(announced):
            raise _not_in_cluster(
                f"Not every instance draws what it starts by a rate: {_older(announced, DRAWS)} is of an older "
                "release, and would count for itself. Upgrade it, or give max_in_hand alone; nothing was changed.",
                "limit.rate",
            )

    def check_key_rates(self, limits: Iterable[QueueLimit | None], field: str) -> None:
        """Of who changes limits that each limit key has for itself, or lists them. Raises Precondition."""
        announced = self._membership.announced()
        if self.others is not None and _has_rate(limits) and DRAWS_KEYS not in known_by_all(announced):
            raise _not_in_cluster(
                f"Not every instance draws what it starts by the rate of a limit key: {_older(announced, DRAWS_KEYS)} "
                "is of an older release, and would count for itself. Upgrade it, or give each key max_in_hand alone; "
                "nothing was changed.",
                field,
            )

    @property
    def default_share(self) -> float:
        """What one limit key may have of a queue, where the rules of its keys do not say it."""
        return DEFAULT_SHARE if self.others is None else 1

    def fit_keys(self, before: Regulation, rules: Regulation, *, is_share_given: bool) -> Regulation:
        """As they are to be stored: a release that counts by itself is to leave the queue alone. In a cluster a key has
        a share of what the queue may have in hand, and of nothing else. Raises Precondition."""
        kept = _without_needs(rules.kept, LENDS_KEYS, SHARES_KEYS, DRAWS_KEYS)
        if self.others is None or rules.keys is None:
            return replace(rules, kept=kept)
        limits = [rules.keys.limit, *(limit for _, limit in rules.keys.overrides)]
        self.check_key_rates(limits, "keys")
        kept = with_need(kept, LENDS_KEYS)
        if _has_rate(limits):
            kept = with_need(kept, DRAWS_KEYS)
        if rules.keys.share >= 1:
            return replace(rules, kept=kept)
        if is_share_given or counts_hands(rules.limit) or counts_hands(before.limit):
            self._check_share(rules)
            return replace(rules, kept=with_need(kept, SHARES_KEYS))
        return replace(rules, keys=replace(rules.keys, share=1), kept=kept)

    def fit_limit(self, kept: NamedLimit) -> NamedLimit:
        """As it is to be stored: in a cluster a release that counts by itself is to let nothing go by it."""
        needs = _without_needs(kept.kept, LENDS_KEYS, DRAWS_KEYS)
        if self.others is not None and kept.keyed and kept.limit is not None:
            needs = with_need(needs, LENDS_KEYS)
            needs = with_need(needs, DRAWS_KEYS) if _has_rate(kept.each()) else needs
        return replace(kept, kept=needs)

    def _check_share(self, rules: Regulation) -> None:
        """Raises Precondition."""
        announced = self._membership.announced()
        if SHARES_KEYS not in known_by_all(announced):
            raise _not_in_cluster(
                f"Not every instance keeps to the share of a limit key: {_older(announced, SHARES_KEYS)} is of an "
                "older release, and would let a key have more. Upgrade it, or leave the share out; nothing was "
                "changed.",
                "keys.share",
            )
        if not counts_hands(rules.limit):
            raise _not_in_cluster(
                "In a cluster the share of a limit key is one of the max_in_hand of its queue, for no instance knows "
                "the slots of all, and the queue would have none: nothing was changed. Give the queue a max_in_hand, "
                "or the share 1, which takes it away, and each key a max_in_hand.",
                "keys.share",
            )

    def check_ordering(self) -> None:
        """Of who schedules tasks with an ordering key. Raises Precondition where nobody could keep their order."""
        announced = self._membership.announced()
        if self.others is not None and KEY_SHARDS not in known_by_all(announced):
            raise Precondition(
                f"Not every instance keeps the order of ordering keys in a cluster: {_older(announced, KEY_SHARDS)} is "
                "of an older release, and would send the tasks of a key side by side. Upgrade it, then repeat the "
                "call, or leave ordering_key empty; nothing was stored.",
                "ORDERING_IN_CLUSTER",
                field="template.ordering_key",
            )

    def check_releases(self, capability: str) -> None:
        """Raises Precondition where an instance that lives does not understand it."""
        announced = self._membership.announced()
        if capability in known_by_all(announced):
            return
        raise Precondition(
            f"Not every instance {_UNDERSTANDING[capability]}: {_older(announced, capability)} is of an older "
            "release. Upgrade it, then repeat the call; nothing was changed.",
            "OLDER_RELEASE",
        )


def _has_rate(limits: Iterable[QueueLimit | None]) -> bool:
    return any(limit is not None and limit.rate for limit in limits)


def _without_needs(kept: str, *names: str) -> str:
    for name in names:
        kept = without_need(kept, name)
    return kept


def _older(announced: Mapping[str, Collection[str]], capability: str) -> str:
    """Who does not understand it, by name."""
    return ", ".join(sorted(name or "one" for name, knows in announced.items() if capability not in knows))


def _not_in_cluster(sentence: str, field: str) -> Precondition:
    return Precondition(sentence, "LIMIT_IN_CLUSTER", field=field)


def _refusal(queue: QueueKey, rules: Regulation, mode: Mode) -> str:
    why = f" ({rules.note})" if rules.note else ""
    return (
        f"The queue {queue.queue!r} takes no tasks in, it is {mode.name}{why}: nothing was stored. Choose another "
        "queue, or try again when an operator has it RUNNING (timerd queues resume)."
    )
