"""S5 over many occurrences: with crashes, and with records after which their writer dies, no two are ever open at once.

`python -m tests.schedules --apart 100000` plays as many, and prints what came together.
"""

from __future__ import annotations

import pytest

from tests.schedules.apart import played_apart
from timerd.model.overlap import Overlap

SHORT, LONG = 400, 100_000


@pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.REPLACE])
def test_no_two_of_some_hundred_are_open_at_once(policy: Overlap) -> None:
    apart = played_apart(policy, SHORT)
    assert apart.occurrences >= SHORT
    assert apart.crashes > apart.histories, "they are histories with crashes"


@pytest.mark.long
@pytest.mark.parametrize("policy", [Overlap.SKIP, Overlap.REPLACE])
def test_no_two_of_a_hundred_thousand_are_open_at_once(policy: Overlap) -> None:
    assert played_apart(policy, LONG).occurrences >= LONG
