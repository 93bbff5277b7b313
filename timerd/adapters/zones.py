"""Time zones from the tzdata package, never from the files of the machine: all instances of a release know the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from hashlib import blake2b
from importlib.resources import files
from zoneinfo import ZoneInfo

import tzdata

from timerd.model.errors import Invalid

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# No zone has changed twice within this since 1970.
_PROBE = timedelta(days=4)


class UnknownZone(Invalid):
    """The package has no zone of that name."""


def tzdata_version() -> str:
    """As the IANA names its releases: 2026a."""
    return str(tzdata.IANA_VERSION)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """All that `zone` knows, old names included."""
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())


@lru_cache(maxsize=1024)
def zone(name: str) -> ZoneInfo:
    """One object for each name, by whose identity what is computed of it is kept. Raises UnknownZone, with names that
    are near."""
    if name not in zone_names():
        near = get_close_matches(name, zone_names(), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else "give one such as Europe/Berlin or UTC."
        raise UnknownZone(f"There is no time zone {name[:64]!r} in tzdata {tzdata_version()}: {hint}", "zone")
    with files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def zone_digest(name: str, from_ms: int, years: int = 10) -> str:
    """Of the offset there and of each change of it from then on: what a new release may alter. Raises UnknownZone."""
    at = _EPOCH + timedelta(milliseconds=from_ms)
    end, digest = at + years * timedelta(days=366), blake2b(digest_size=8, person=b"timerd.zone")
    offset = _offset_s(zone(name), at)
    digest.update(b"%d" % offset)
    while at < end:
        if (after := _offset_s(zone(name), at + _PROBE)) != offset:
            digest.update(b",%d:%d" % (_change_s(zone(name), at, at + _PROBE), after))
            offset = after
        at += _PROBE
    return digest.hexdigest()


def _offset_s(of: ZoneInfo, at: datetime) -> int:
    return (at.astimezone(of).utcoffset() or timedelta()) // timedelta(seconds=1)


def _change_s(of: ZoneInfo, low: datetime, high: datetime) -> int:
    """The second since 1970 in which the later offset begins."""
    low_s, high_s = ((each - _EPOCH) // timedelta(seconds=1) for each in (low, high))
    before = _offset_s(of, low)
    while high_s - low_s > 1:
        middle_s = (low_s + high_s) // 2
        if _offset_s(of, _EPOCH + timedelta(seconds=middle_s)) == before:
            low_s = middle_s
        else:
            high_s = middle_s
    return high_s
