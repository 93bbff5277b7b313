"""`python -m examples.bank_accounts [PICTURE] [ACCOUNTS]`: what each strategy does while a bank is down for a day."""

from __future__ import annotations

import sys
from pathlib import Path

from examples.bank_accounts.accounts import ACCOUNTS, HOUR_S, runs
from examples.bank_accounts.picture import Curve, curve, draw
from timerd.simulate import Settings, SimulatedRun, play


def played(settings: Settings) -> SimulatedRun:
    playing = play(settings)
    while True:
        try:
            next(playing)
        except StopIteration as ended:
            run: SimulatedRun = ended.value
            return run


def curves(accounts: int = ACCOUNTS) -> list[Curve]:
    return [curve(name, played(settings)) for name, settings in runs(accounts).items()]


def told(each: Curve) -> str:
    ingress, late_h, clogged_h = each.ingress.max(), each.late_h.max(), each.summary.clogged_s / HOUR_S
    return f"{each.name:<8} {ingress:>6,.0f} a minute at most, {late_h:>4.1f} h late, clogged for {clogged_h:.0f} h"


def main(picture: str | None = None, accounts: str = f"{ACCOUNTS}") -> None:
    found = curves(int(accounts))
    for each in found:
        print(told(each))
    if picture is not None:
        draw(found, Path(picture))


if __name__ == "__main__":
    main(*sys.argv[1:])
