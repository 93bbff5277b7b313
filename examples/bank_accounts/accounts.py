"""The accounts, their banks and the workers: as many accounts as one likes, and the same load for each worker."""

from __future__ import annotations

from timerd.simulate import Dependency, Outage, Settings, Strategy

HOUR_S, DAY_S = 3_600.0, 86_400.0
ACCOUNTS = 200_000
# One worker syncs so many in 8 hours, and has time left: 5 s each.
A_WORKER = 4_000
# The largest bank has three of ten accounts. It is down for the second day of four.
BANKS = (Dependency("bank-1", 0.3), Dependency("bank-2", 0.2), Dependency("bank-3", 0.1))
DOWN = Outage("bank-1", 1 * DAY_S, 2 * DAY_S)


def runs(accounts: int = ACCOUNTS) -> dict[str, Settings]:
    """A run for each strategy, by its name."""
    return {
        strategy.value: Settings(
            strategy,
            members=accounts,
            cycle_s=8 * HOUR_S,
            span_s=4 * DAY_S,
            workers=max(1, accounts // A_WORKER),
            mean_s=5.0,
            p90_s=11.0,
            sources=BANKS,
            outages=(DOWN,),
            tick_s=60.0,
        )
        for strategy in Strategy
    }
