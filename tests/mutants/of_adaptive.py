"""Mistakes in how many tasks a target is found to bear."""

from tests.mutants.mutant import Mutant

_UNIT = "tests/unit/test_adaptive_limit.py"
_LIMIT = "timerd/core/regulation/adaptive_limit.py"
MUTANTS = (
    Mutant(
        name="adaptive-beyond-its-ceiling",
        guarantee="G20",
        file=_LIMIT,
        old="            self.tasks = min(self.rules.ceiling, self.tasks + 1)\n",
        new="            self.tasks += 1\n",
        breaks="more are in hand than the ceiling allows",
        tests=(f"{_UNIT}::test_it_never_goes_beyond_its_ceiling_nor_below_its_floor",),
    ),
    Mutant(
        name="one-overload-many-steps",
        guarantee="G20",
        file=_LIMIT,
        old="        self._since_ms = now_ms\n        self._begin()\n",
        new="        self._begin()\n",
        breaks="all that was in hand when a target was overloaded takes a step down each, to the floor",
        tests=(f"{_UNIT}::test_one_overload_is_one_step_down",),
    ),
    Mutant(
        name="raised-in-a-quiet-night",
        guarantee="G20",
        file=_LIMIT,
        old="        if is_good and self._most >= USED * self.tasks:\n",
        new="        if is_good:\n",
        breaks="a queue with little to do is let go without bounds in the morning",
        tests=(f"{_UNIT}::test_what_is_not_used_raises_nothing",),
    ),
    Mutant(
        name="adaptive-not-asked",
        guarantee="G20",
        file="timerd/core/regulation/standstills.py",
        old="(breakers, adaptive)\n",
        new="(breakers,)\n",
        breaks="a queue with an adaptive limit has none",
        tests=(
            "tests/fundamentals/test_adaptive.py::test_more_go_at_a_time_until_the_target_says_that_it_is_too_much",
        ),
    ),
)
