"""The keeper of a home lends the permits of all its limit keys (rules L1 to L3 of docs/understand/protocol.md, model
keyed.pml).

It goes by P1 to P5 as the keeper of one limit does. Of a key of which nothing is lent and nothing is old it keeps
nothing, for that is what it takes an unknown key for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from timerd.core.regulation.key_permits import KeysGrant, KeysStated, KeyStated
from timerd.core.regulation.lender import Lender
from timerd.core.regulation.lent_shares import share_of
from timerd.model.keeping import LimitedKey


@dataclass(slots=True)
class _Loan:
    """Of a key: what an instance has, and what it wants in all."""

    lent: int
    wants: int


@dataclass(slots=True)
class _KeyBorrower:
    incarnation: int
    seq: int = 0
    round: int = 0
    lease_ms: int = 0
    loans: dict[LimitedKey, _Loan] = field(default_factory=dict)

    def hear(self, said: KeysStated) -> None:
        self.seq, self.round, self.lease_ms = said.seq, said.round, said.lease_ms
        if said.is_whole:
            self.loans.clear()
        for key, one in said.keys.items():
            if one.permits or one.want:
                self.loans[key] = _Loan(one.permits, one.permits + one.want)
            else:
                self.loans.pop(key, None)


class KeysLeft(NamedTuple):
    """What a keeper that went in peace says to the next one: what was old, and who may have permits: instance ->
    incarnation."""

    old: Mapping[LimitedKey, int] = {}
    borrowers: Mapping[str, int] = {}


class KeyPermitKeeper(Lender[_KeyBorrower, KeysStated]):
    """Of one home. `left`: by the keeper before; None: it went without a word, or there was none (`is_first`)."""

    def __init__(
        self, token: int, lease_ms: int, now_ms: float, left: KeysLeft | None, *, is_first: bool = False
    ) -> None:
        super().__init__(token, lease_ms, left.borrowers if left is not None else {})
        # What is taken by deliveries of instances that are gone.
        self.old: Counter[LimitedKey] = Counter()
        # Keys of which all together want more than there is.
        self._short: set[LimitedKey] = set()
        if left is not None and left.old:
            self._take_old(left.old, now_ms)
        elif left is None and not is_first:
            self._take_unknown(now_ms)

    def stated(self, name: str, incarnation: int, said: KeysStated, now_ms: float) -> bool:
        """False: it has said something later (L3), or is to say all that it has (L1)."""
        if (before := self._before(name)) not in (0, incarnation):
            self._gone(name, before, now_ms)
        known = self._borrowers.get(name)
        if not self._is_taken(known, said):
            return False
        self._expected.pop(name, None)
        if known is None:
            known = self._borrowers[name] = _KeyBorrower(incarnation)
        known.hear(said)
        if moved := {key: one.moved for key, one in said.keys.items() if one.moved}:
            self._take_old(moved, now_ms)
        self._settle()
        return True

    def lend(self, name: str, said: KeysStated, most_of: Callable[[LimitedKey], int], now_ms: float) -> KeysGrant:
        """In answer to what it has just stated. `most_of`: how many of a key may be in hand."""
        borrower, granted = self._borrowers[name], dict[LimitedKey, int]()
        is_known = self._living.get(name) == borrower.incarnation and said.lease_ms <= self.lease_ms
        is_open = is_known and not self._is_shut()
        for key, one in said.keys.items():
            if (more := self._more(name, key, one, most_of(key), now_ms) if is_open and one.want else 0) > 0:
                borrower.loans[key] = _Loan(one.permits + more, one.permits + more)
                granted[key] = more
        short = [key for key in self._short if key in borrower.loans or key in said.keys]
        shares = {key: self._share(name, key, most_of(key), now_ms) for key in short}
        most = {key: share for key, share in shares.items() if share is not None}
        return KeysGrant(granted, most, self.round, self.lease_ms)

    def free(self, key: LimitedKey, limit: int) -> int:
        """P1: what nobody has, where that is known."""
        return 0 if self._is_shut() else self._free(key, limit)

    def __len__(self) -> int:
        """How many keys are lent, or old."""
        return len({*self.old, *(key for each in self._borrowers.values() for key in each.loans)})

    def left(self, leaving: str = "") -> KeysLeft | None:
        """What the next keeper may rely on; `leaving`: an instance that goes, having stated what it has. None: on
        nothing."""
        if self._doubt.unknown or self.unheard():
            return None
        old = Counter(self.old)
        if leaving in self._borrowers:
            old.update({key: loan.lent for key, loan in self._borrowers[leaving].loans.items() if loan.lent})
        return KeysLeft(old, {name: each.incarnation for name, each in self._borrowers.items() if name != leaving})

    # -- inside ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _is_taken(known: _KeyBorrower | None, said: KeysStated) -> bool:
        return said.is_whole if known is None else said.seq > known.seq

    def _more(self, name: str, key: LimitedKey, one: KeyStated, limit: int, now_ms: float) -> int:
        share = self._share(name, key, limit, now_ms)
        room = min(one.want, self._free(key, limit))
        return room if share is None else min(room, share - one.permits)

    def _free(self, key: LimitedKey, limit: int) -> int:
        lent = sum(each.loans[key].lent for each in self._borrowers.values() if key in each.loans)
        return limit - lent - self.old[key]

    def _share(self, name: str, key: LimitedKey, limit: int, now_ms: float) -> int | None:
        """None: there is enough for all."""
        wanted = {each: other.loans[key].wants for each, other in self._borrowers.items() if key in other.loans}
        share = share_of(name, wanted, max(0, limit - self.old[key]), now_ms)
        if share is None:
            self._short.discard(key)
        else:
            self._short.add(key)
        return share

    def _drop(self, name: str, now_ms: float) -> None:
        known = self._borrowers.pop(name, None)
        loans = known.loans if known is not None else {}
        self._short -= loans.keys()
        self._take_old({key: loan.lent for key, loan in loans.items() if loan.lent}, now_ms)

    def _take_old(self, deliveries: Mapping[LimitedKey, int], now_ms: float) -> None:
        self.old.update(deliveries)
        self._wait(now_ms)

    def _forget_old(self) -> None:
        self.old.clear()
