"""Mistakes in the order of a queue that goes by deadlines."""

from tests.mutants.mutant import Mutant

TESTS = "tests/unit/test_deadlines.py::"

MUTANTS = (
    Mutant(
        name="late-ones-first",
        guarantee="G9",
        file="timerd/core/fairness/deadlines.py",
        old="        self._part_late(now_ms)\n",
        new="",
        breaks="a task that is late already makes others late",
        tests=(TESTS + "test_what_is_late_or_has_no_deadline_goes_behind_by_age",),
    ),
    Mutant(
        name="nothing-old-ends",
        guarantee="G9",
        file="timerd/core/fairness/deadlines.py",
        old="        if self._since_old >= OLD_EVERY - 1 and",
        new="        if self._since_old < 0 and",
        breaks="a task that is late waits for ever where more comes than can be done",
        tests=(TESTS + "test_every_eighth_is_the_oldest_of_these",),
    ),
    Mutant(
        name="expired-takes-the-eighth",
        guarantee="G9",
        file="timerd/core/fairness/deadlines.py",
        old="        if ends.firm_ms[row] > now_ms:\n",
        new="        if ends.firm_ms[row] >= 0:\n",
        breaks="what has expired takes the place of what is late and still worth something",
        tests=(TESTS + "test_what_has_expired_is_not_counted_as_sent",),
    ),
)
