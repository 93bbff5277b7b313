"""The model checker goes through every state of the protocol's models, and each rule is shown to be needed.

A search takes its time and says of a text what it said before, so a verdict is kept in `proven.json` with the digest of
its model. `make models` searches what is new there, `python -m tests.models --all` everything. Here the shortest of
each model are searched, and a model that was changed since it was proven fails.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.models.cases import BROKEN, HOLDS, QUICK
from tests.models.checking import HERE, MISSING, searched
from tests.models.proven import Proven
from tests.models.switches import switches_named_in


@pytest.fixture
def checker() -> None:
    if MISSING and os.environ.get("CI") == "true":
        pytest.fail(f"The models must be checked here, but {' and '.join(MISSING)} cannot be found: install it.")
    if MISSING:
        pytest.skip(f"{' and '.join(MISSING)} cannot be found: install it to check the models")


@pytest.mark.models
@pytest.mark.usefixtures("checker")
@pytest.mark.parametrize("case", QUICK)
def test_the_checker_says_it_again(case: str) -> None:
    said, words = searched(case, holds=case in HOLDS)
    assert said == ("holds" if case in HOLDS else "broken"), words


@pytest.mark.parametrize("case", HOLDS)
def test_model_holds(case: str) -> None:
    assert Proven().said(case) == "holds", f"{case!r} is not proven as its model is now: run `make models`."


@pytest.mark.parametrize("case", BROKEN)
def test_broken_variant_is_found(case: str) -> None:
    assert Proven().said(case) == "broken", f"{case!r} is not searched as its model is now: run `make models`."


@pytest.mark.parametrize("model", sorted(HERE.glob("*.pml")), ids=lambda path: path.stem)
def test_each_switch_of_a_model_is_tried(model: Path) -> None:
    tried = {word for case in HOLDS + BROKEN if case.split()[0] == model.stem for word in case.split()[1:]}
    # They only make a model smaller.
    assert switches_named_in(model) - tried - {"NOHINT", "NOOPENER", "SPEC2"} == set()
