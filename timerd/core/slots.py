"""Where the members of a cycle have their moments: slots as ranges of a hash, moments within the period, places on
the circle.

A moment is a function of the key alone. No count of members or slots is in it, so who comes and goes, and another
number of slots, move nobody; and each language finds the same one (docs/use/simulate.md has vectors).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from math import isqrt
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from timerd.model.errors import Invalid

# Hashes are below it.
SPACE = 1 << 64
# Databases have signed integers: with the highest bit turned over, their order is that of the hashes.
_SIGN = 1 << 63
_URN = "urn:uuid:"
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_MINUTE_MS = 60_000
# Enough that a slot of a day has its minute and a half.
DEFAULT_SLOTS = 1_024
MIN_PERIOD_MS = 1_000
MAX_PERIOD_MS = 100 * 366 * 86_400_000


class UuidLike(Protocol):
    """What uuid.UUID is here, where that module, which reads clocks, is not imported."""

    @property
    def urn(self) -> str: ...


Key = int | str | UuidLike


class Range(NamedTuple):
    """The hashes from `first` to before `end`."""

    first: int
    end: int

    @property
    def signed(self) -> tuple[int, int]:
        """(lo, hi) for BETWEEN over a signed column: both belong to it."""
        return self.first - _SIGN, self.end - 1 - _SIGN


def text_of(key: Key) -> str:
    """The text whose hash a key has: an integer in decimal, a UUID in lower case with dashes, a text as it is."""
    if isinstance(key, str):
        return key
    if isinstance(key, int) and not isinstance(key, bool):
        return str(int(key))
    urn = getattr(key, "urn", None)
    if isinstance(urn, str) and urn.startswith(_URN):
        return urn.removeprefix(_URN)
    raise Invalid(f"A key is an int, a UUID or a text: {key!r} is of type {type(key).__name__}.", "key")


def hash_of(key: Key) -> int:
    """The first 8 bytes of SHA-256 over the key's text in UTF-8, the highest byte first."""
    return int.from_bytes(sha256(text_of(key).encode()).digest()[:8], "big")


def hashes_of(keys: Iterable[Key]) -> NDArray[np.uint64]:
    first = b"".join([sha256(text_of(key).encode()).digest()[:8] for key in keys])
    return np.frombuffer(first, ">u8").astype(np.uint64)


def slot_of(key_hash: int, slots: int) -> int:
    return key_hash * slots // SPACE


def slot_range(slot: int, slots: int) -> Range:
    """Ends meet the next beginning, so that each hash is in exactly one slot, whether or not 2^64 can be divided."""
    return Range(-(-slot * SPACE // slots), -(-(slot + 1) * SPACE // slots))


def scaled(hashes: NDArray[np.uint64], factor: int) -> NDArray[np.int64]:
    """floor(hash x factor / 2^64) of each, in 64-bit arithmetic: the upper half of the product of two halves each."""
    high, low = hashes >> _HALF, hashes & _LOW
    factor_high, factor_low = np.uint64(factor >> 32), np.uint64(factor & 0xFFFFFFFF)
    middle = high * factor_low
    carried = (low * factor_low >> _HALF) + (middle & _LOW) + low * factor_high
    upper: NDArray[np.uint64] = high * factor_high + (middle >> _HALF) + (carried >> _HALF)
    return upper.astype(np.int64)


@dataclass(frozen=True, slots=True)
class CycleSlots:
    """A period that repeats from `origin_ms` on, cut into slots, with `places` for the kinds of one member. Made by
    `cycle`, which checks it."""

    period_ms: int
    slots: int
    places: int = 1
    origin_ms: int = 0

    @property
    def slot_ms(self) -> int:
        return self.period_ms // self.slots

    def moment_ms(self, key: Key, place: int = 0) -> int:
        """In the first cycle; that of cycle n is n periods later."""
        within_ms = hash_of(key) * self.period_ms // SPACE
        return self.origin_ms + (within_ms + self.place_ms(place)) % self.period_ms

    def moments_ms(self, hashes: NDArray[np.uint64], place: int = 0) -> NDArray[np.int64]:
        return self.origin_ms + (scaled(hashes, self.period_ms) + self.place_ms(place)) % self.period_ms

    def place_ms(self, place: int) -> int:
        """How far it is from the first one: equally far from each other, so that kinds of one member never meet."""
        if not 0 <= place < self.places:
            raise Invalid(f"There is no place {place}: this cycle has the places 0 to {self.places - 1}.", "place")
        return place * (self.period_ms // self.places)


def cycle(period_ms: int, slots: int = 0, places: int = 1, origin_ms: int = 0) -> CycleSlots:
    """`slots` 0: as many as `default_slots` says. Raises Invalid. The kinds of a slot are ranges of hashes as well, so
    places are whole slots apart."""
    if not MIN_PERIOD_MS <= period_ms <= MAX_PERIOD_MS:
        raise Invalid(f"The period is {period_ms} ms: it must be from 1 s to 100 years.", "period")
    _check_divides(slots or 1, period_ms, "slots")
    _check_divides(places, period_ms, "places")
    if slots % places:
        raise Invalid(
            f"{slots:,} slots cannot be shared by {places} places: give a multiple of {places} that divides the "
            f"period, such as {default_slots(period_ms, places):,}.",
            "slots",
        )
    return CycleSlots(period_ms, slots or default_slots(period_ms, places), places, origin_ms)


def default_slots(period_ms: int, places: int = 1) -> int:
    """The most slots that divide the period into a minute or more each, and at most 1,024; as many for each place."""
    most = min(DEFAULT_SLOTS, period_ms // _MINUTE_MS) // places
    return places * _divisor_up_to(period_ms // places, max(1, most))


def divides(slots: int, period_ms: int) -> bool:
    return 0 < slots <= period_ms and period_ms % slots == 0


def nearest(slots: int, period_ms: int) -> tuple[int, ...]:
    """The numbers next to `slots`, below and above, that divide the period."""
    found = divisors(period_ms)
    below, above = [n for n in found if n < slots][-1:], [n for n in found if n > slots][:1]
    return (*below, *above)


def divisors(number: int) -> list[int]:
    """All of them, in order."""
    low = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return low + [number // n for n in reversed(low) if n * n != number]


def _divisor_up_to(number: int, most: int) -> int:
    return next(n for n in range(most, 0, -1) if number % n == 0)


def _check_divides(count: int, period_ms: int, what: str) -> None:
    if divides(count, period_ms):
        return
    near = " and ".join(f"{n:,}" for n in nearest(count, period_ms))
    one = what.removesuffix("s")
    raise Invalid(
        f"{count:,} {what} do not divide the period of {period_ms:,} ms into whole milliseconds: each {one} must be "
        f"as long as every other one. The nearest numbers that do are {near}.",
        what,
    )
