"""examples/bank_accounts in a small form: one worker and its 4,000 accounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.bank_accounts.__main__ import curves, main, told
from examples.bank_accounts.accounts import A_WORKER, ACCOUNTS, runs
from examples.bank_accounts.picture import Curve, draw

README = Path(__file__).parents[2] / "examples" / "bank_accounts" / "README.md"


@pytest.fixture(scope="module")
def found() -> dict[str, Curve]:
    return {each.name: each for each in curves(A_WORKER)}


def test_least_recent_first_clogs_while_a_bank_is_down(found: dict[str, Curve]) -> None:
    central = found["central"]
    assert central.late_h.max() > 20
    assert central.summary.clogged_s > 12 * 3_600
    # After the outage it has nothing to do for hours, and all of it at once.
    assert 0 in central.ingress[-144:]


@pytest.mark.parametrize("name", ["slot", "slot2"])
def test_slots_do_not(found: dict[str, Curve], name: str) -> None:
    each = found[name]
    assert each.late_h.max() < 1
    assert (each.summary.clogged_s, each.summary.never_run) == (0, 0)
    assert each.ingress.min() > 0


def test_the_whole_has_as_many_accounts_for_each_worker() -> None:
    for small, whole in zip(runs(A_WORKER).values(), runs().values(), strict=True):
        assert whole.members == ACCOUNTS == 200_000
        assert small.members / small.workers == whole.members / whole.workers


def test_it_prints_a_line_a_strategy_and_draws(
    found: dict[str, Curve], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(accounts=f"{A_WORKER}")
    assert capsys.readouterr().out.splitlines() == [told(each) for each in found.values()]
    shown = README.read_text(encoding="utf-8").partition("```\n")[2].partition("```")[0].splitlines()
    assert [line.split()[0] for line in shown] == list(found)
    pytest.importorskip("matplotlib")
    draw(list(found.values()), tmp_path / "it.png")
    assert (tmp_path / "it.png").read_bytes()[:4] == b"\x89PNG"
