"""Zones: from the package alone, with near names for what is misspelt and a digest of what a release may change."""

from __future__ import annotations

from datetime import timedelta, timezone
from importlib.resources import files
from itertools import pairwise
from typing import Any
from zoneinfo import _zoneinfo  # type: ignore[attr-defined]

import pytest

from tests.core.recurrence.local import utc_ms
from timerd.adapters.zones import UnknownZone, tzdata_version, zone, zone_names
from timerd.core.recurrence import zone_digest
from timerd.core.recurrence.offsets import periods_of

NEW_YEAR = utc_ms("2026-01-01")
NIGHTS = 4 * 86_400


def changes_since_1970(name: str) -> list[int]:
    """From the file, as instants in seconds. Those that its rule adds after its table come twice a year at most."""
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        read: Any = _zoneinfo.ZoneInfo.from_file(data, key=name)
    before = read._tti_before
    found = []
    for at_s, info in zip(read._trans_utc, read._ttinfos, strict=True):
        if at_s >= 0 and before is not None and info.utcoff != before.utcoff:
            found.append(at_s)
        before = info
    return found


def test_no_zone_changes_twice_within_the_distance_at_which_it_is_asked() -> None:
    """By which the changes of a zone are found."""
    near = [
        (name, one)
        for name in zone_names()
        for one, other in pairwise(changes_since_1970(name))
        if other - one <= NIGHTS
    ]
    assert near == []


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/Recife", "Africa/Casablanca", "Pacific/Apia", "Asia/Gaza"])
def test_all_changes_of_a_zone_are_found(name: str) -> None:
    listed = [at_s for at_s in changes_since_1970(name) if at_s > 0]
    found = [
        period.start_ms // 1000
        for year in range(1970, 2026)
        for period in periods_of(zone(name), year)
        if period.before_ms != period.offset_ms and period.start_ms > 0
    ]
    assert len(listed) > 10
    assert found[: len(listed)] == listed[: len(found)]


def test_the_files_of_the_machine_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoneinfo.TZPATH", ("/nowhere",))
    zone.cache_clear()
    assert str(zone("Europe/Berlin")) == "Europe/Berlin"


def test_one_object_stands_for_a_name() -> None:
    assert zone("Europe/Berlin") is zone("Europe/Berlin")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("Europe/Berln", "did you mean Europe/Berlin"),
        ("europe/berlin", "did you mean Europe/Berlin or"),
        ("EUROPE/BERLIN", "did you mean Europe/Berlin or"),
        (" utc", "did you mean UTC"),
        ("", "such as Europe/Berlin"),
    ],
)
def test_an_unknown_zone_is_refused_with_names_that_are_near(name: str, near: str) -> None:
    with pytest.raises(UnknownZone, match=near) as caught:
        zone(name)
    assert caught.value.field == "zone"
    assert tzdata_version() in str(caught.value)


@pytest.mark.parametrize("name", ["GMT+1", "UTC+2", "etc/gmt-5"])
def test_no_zone_is_proposed_whose_sign_means_the_opposite(name: str) -> None:
    with pytest.raises(UnknownZone) as caught:
        zone(name)
    assert "Etc/GMT" not in str(caught.value)


@pytest.mark.parametrize("name", ["../etc/passwd", "/etc/localtime", "Europe", "Europe/Berlin/..", "zones"])
def test_a_path_is_no_name(name: str) -> None:
    with pytest.raises(UnknownZone):
        zone(name)


def digest_of(name: str) -> str:
    return zone_digest(zone(name), NEW_YEAR)


def test_a_digest_stands_for_the_coming_changes() -> None:
    assert digest_of("Europe/Berlin") == digest_of("Europe/Paris")
    assert digest_of("Europe/Berlin") != digest_of("Europe/London")
    assert digest_of("Asia/Tokyo") != digest_of("Europe/Berlin")


def test_a_change_within_ten_years_alters_the_digest_and_one_that_is_over_does_not() -> None:
    """Caracas had another offset until 2016."""
    winter = timezone(timedelta(hours=1))
    assert zone_digest(winter, NEW_YEAR) != digest_of("Europe/Berlin")
    assert zone_digest(winter, NEW_YEAR) == digest_of("Africa/Lagos")
    assert digest_of("America/Caracas") == digest_of("America/La_Paz")
