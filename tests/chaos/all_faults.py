"""All that can be done to a cluster, and what of it a given store allows."""

from __future__ import annotations

from tests.chaos.faults import FAULTS
from tests.chaos.ring import RING_FAULTS
from tests.chaos.stage import Setting

ALL_FAULTS = FAULTS | RING_FAULTS
_WITH_REDIS = ("redis", "no-hints")
_OF_THE_STORE = ("freeze-store", *RING_FAULTS)


def possible(names: tuple[str, ...], setting: Setting) -> tuple[str, ...]:
    """Those that need what is not there are left out, which is said."""
    left = []
    for name in names:
        missing = _missing(name, setting)
        if missing:
            print(f"left out: {name}, for there is {missing}")
        else:
            left.append(name)
    return tuple(left)


def _missing(name: str, setting: Setting) -> str:
    if name in _WITH_REDIS and setting.redis is None:
        return "no redis-server on the path"
    if name == "clock" and setting.clock is None:
        return "no C compiler to step a clock with"
    if name in _OF_THE_STORE and not setting.nodes:
        return "no node of our own"
    wanted = ALL_FAULTS[name].nodes
    return "" if max(1, len(setting.nodes)) in wanted else f"another number of nodes (--nodes {wanted[0]})"
