"""The mutants do not rot, and a trial tells a test that fails from one that does not run; `make mutants` runs them."""

from __future__ import annotations

import re
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest

from tests.mutants.__main__ import drawn
from tests.mutants.mutant import Mutant, Rotten
from tests.mutants.table import MUTANTS
from tests.mutants.trial import ROOT, Verdict, check_sound, copy_into, judge

GUARANTEES = [
    *(f"G{n}" for n in (*range(1, 10), *range(11, 21), 22, 23)),
    *(f"S{n}" for n in range(1, 5)),
    "R1",
    "W1",
    "X1",
]
A_TEST = "tests/services/test_throttle.py::test_rows_are_spread_over_the_time_that_they_may_take"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_code_is_still_the_one_that_it_changes(mutant: Mutant) -> None:
    wrong = mutant.applied_to((ROOT / mutant.file).read_text(encoding="utf-8"))
    compile(wrong, mutant.file, "exec")
    assert len(mutant.new.splitlines()) <= len(mutant.old.splitlines()) + 2


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_tests_exist(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        file, _, name = test.partition("::")
        name, _, story = name.rstrip("]").partition("[")
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), test
        assert not story or (ROOT / "tests/scenarios/partition" / f"{story}.txt").is_file(), test


def test_names_are_plain_and_told_apart() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names))
    assert [name for name in names if not re.fullmatch(r"[a-z]+(-[a-z]+)+", name)] == []


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_the_guarantee_names_its_mutants(guarantee: str) -> None:
    page = (ROOT / "docs" / "understand" / "guarantees.md").read_text(encoding="utf-8")
    tests = page.partition("\n## The tests of each promise\n")[2]
    [row] = [line for line in tests.splitlines() if line.startswith(f"| {guarantee} |")]
    assert f"\n- **{guarantee}, " in page
    named = re.findall(r"`([a-z]+(?:-[a-z]+)+)`", row.rstrip("| ").rpartition("|")[2])
    assert named == [mutant.name for mutant in MUTANTS if mutant.guarantee == guarantee] != []


def test_a_share_is_the_same_for_a_seed_and_has_everybody_in_the_end() -> None:
    third = drawn(MUTANTS, 3, "abc123")
    assert third == drawn(list(reversed(MUTANTS)), 3, "abc123")[::-1]
    assert len(third) == ceil(len(MUTANTS) / 3)
    assert third != drawn(MUTANTS, 3, "abc124")
    assert {mutant.name for n in range(60) for mutant in drawn(MUTANTS, 3, str(n))} == {m.name for m in MUTANTS}
    assert drawn(MUTANTS, 1, "") == list(MUTANTS)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_into(tmp_path_factory.mktemp("tree").resolve())


THROTTLE = Mutant(
    name="one",
    guarantee="G14",
    file="timerd/services/holding/throttle.py",
    old="rows / self._rows_per_s",
    new="rows / self._rows_per_s / 2",
    breaks="twice the rate",
    tests=(A_TEST,),
)


@pytest.mark.parametrize(
    ("new", "verdict", "reason"),
    [
        ("rows / self._rows_per_s / 2", Verdict.CAUGHT, "assert ["),
        ("(rows / self._rows_per_s)", Verdict.SURVIVED, "may_take passed"),
        ("rows / nothing_of_that_name", Verdict.INVALID, "NameError"),
        ("rows / ", Verdict.INVALID, "SyntaxError"),
    ],
)
def test_what_a_trial_says(tree: Path, new: str, verdict: Verdict, reason: str) -> None:
    trial = judge(tree, replace(THROTTLE, new=new))
    assert (trial.verdict, reason in trial.reason) == (verdict, True), trial.reason
    assert (tree / THROTTLE.file).read_bytes() == (ROOT / THROTTLE.file).read_bytes()


def test_a_text_that_is_not_there_is_told(tree: Path) -> None:
    trial = judge(tree, replace(THROTTLE, old="rows * nothing"))
    assert trial.verdict is Verdict.INVALID
    assert "stands 0 times in timerd/services/holding/throttle.py" in trial.reason
    with pytest.raises(Rotten):
        replace(THROTTLE, new=THROTTLE.old).applied_to((ROOT / THROTTLE.file).read_text(encoding="utf-8"))


def test_tests_that_do_not_pass_without_a_mutant_are_named(tree: Path) -> None:
    assert check_sound(tree, [A_TEST]) == []
    missing = A_TEST.replace("rows_are", "nobody_is")
    assert check_sound(tree, [A_TEST, missing]) != []
