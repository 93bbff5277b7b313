"""Set-ups of the shape of the slot-scheduling talk: a week, about as many jobs and workers as its runs had.

Its own durations, a mean of 4 s with a p90 of 120 s, do not exist: its formula gives a mean of 74.3 s with a p90 of
151 s, and these are taken where the load allows it.
"""

from __future__ import annotations

from dataclasses import replace

from timerd.simulate.settings import Dependency, Outage, Settings, Strategy

_HOUR_S, _DAY_S = 3_600.0, 86_400.0

_ACCOUNTS = Settings(
    strategy=Strategy.SELF,
    members=61_000,
    cycle_s=8 * _HOUR_S,
    span_s=7 * _DAY_S,
    workers=15,
    mean_s=5.0,
    p90_s=11.0,
    sources=(Dependency("bank", 0.3),),
    outages=(Outage("bank", 2 * _DAY_S, 3 * _DAY_S),),
)
_EMAIL = Settings(
    strategy=Strategy.SELF,
    members=5_693,
    cycle_s=_DAY_S,
    span_s=7 * _DAY_S,
    workers=20,
    mean_s=74.3,
    p90_s=151.0,
)

# What is simulated where nothing else is said: two in three of the workers are busy.
DEFAULT = replace(_ACCOUNTS, members=12_000, span_s=2 * _DAY_S, workers=3, sources=(), outages=())
PRESETS = {"talk-email": _EMAIL, **{f"talk-{each}": replace(_ACCOUNTS, strategy=each) for each in Strategy}}
