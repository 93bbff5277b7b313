"""Rows of another release, and errors that nobody foresaw: G16, G17."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="unknown-fields-dropped",
        guarantee="G16",
        file="timerd/model/codec.py",
        old="return values | json.loads(kept) if kept else values",
        new="return values",
        breaks="a retry takes away what the next release said of its task",
        tests=("tests/unit/test_stored_forms.py::test_a_retry_writes_the_unknown_fields_again",),
    ),
    Mutant(
        name="needs-not-looked-at",
        guarantee="G16",
        file="timerd/model/codec.py",
        old="return _needs(kept) - CAPABILITIES if kept else frozenset()",
        new="return frozenset()",
        breaks="a task is delivered without what must be understood for it",
        tests=("tests/unit/test_stored_forms.py::test_a_row_that_is_not_understood_stays_and_holds_the_mark",),
    ),
    Mutant(
        name="mark-over-what-is-not-understood",
        guarantee="G16",
        file="timerd/core/partition/left_in_store.py",
        old="found += [self.foreign.oldest_ms] if self.foreign.oldest_ms is not None else []",
        new="pass",
        breaks="the next holder begins above the row, and it is lost",
        tests=("tests/unit/test_stored_forms.py::test_a_row_that_is_not_understood_stays_and_holds_the_mark",),
    ),
    Mutant(
        name="new-form-for-some",
        guarantee="G16",
        file="timerd/model/codec.py",
        old="return frozenset.intersection(",
        new="return frozenset.union(",
        breaks="a new form is written while an instance lives that does not understand it",
        tests=("tests/cluster/test_leases.py::test_a_new_form_is_written_once_all_who_live_understand_it",),
    ),
    Mutant(
        name="failed-effect-not-tried-again",
        guarantee="G17",
        file="timerd/services/holding/effect_runner.py",
        old="                await asyncio.sleep(pause_s)\n",
        new="                return\n",
        breaks="one error, and the partition waits for its effect for ever",
        tests=("tests/fundamentals/test_unforeseen.py::test_an_error_in_an_effect_is_seen_and_the_effect_tried_again",),
    ),
    Mutant(
        name="half-told-machine-goes-on",
        guarantee="G17",
        file="timerd/services/holding/effect_runner.py",
        old="        raise _HalfWay(error) from error\n",
        new="        raise\n",
        breaks="a machine hears the same fact twice, the first time by half",
        tests=("tests/fundamentals/test_unforeseen.py::test_a_machine_that_raises_is_given_up_at_once",),
    ),
    Mutant(
        name="in-hand-forgotten-with-its-machine",
        guarantee="G17",
        file="timerd/services/holding/held.py",
        old="self._deliveries.hold_back({",
        new="dict({",
        breaks="what workers have of a partition that is given up is sent again",
        tests=(
            "tests/fundamentals/test_unforeseen.py"
            "::test_what_workers_have_of_a_partition_that_is_given_up_stays_with_them",
        ),
    ),
)
