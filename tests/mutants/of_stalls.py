"""Mistakes in which handlers are taken for hanging."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="said-again-is-progress",
        guarantee="G3",
        file="timerd/core/dispatch/delivery_machine.py",
        old="                batch.heard(row, now_ms - report.age_ms)\n",
        new="                batch.heard(row, now_ms)\n",
        breaks="a worker that repeats what a handler has said keeps one alive that hangs",
        tests=("tests/unit/test_delivery_machine.py::test_what_it_says_counts_from_when_it_said_it",),
    ),
    Mutant(
        name="progress-not-heard",
        guarantee="G5",
        file="timerd/core/dispatch/delivery_machine.py",
        old="                batch.heard(row, now_ms - report.age_ms)\n",
        new="",
        breaks="a task comes again whose handler says how far it has come",
        tests=(
            "tests/unit/test_delivery_machine.py::test_what_it_says_counts_from_when_it_said_it",
            "tests/fundamentals/test_stalls.py::test_who_receives_without_a_worker_says_it_with_the_lease",
        ),
    ),
    Mutant(
        name="stalls-while-it-waits",
        guarantee="G5",
        file="timerd/sdk/working/leases.py",
        old="        self.heard_s: Callable[[], float] = monotonic\n",
        new="        self.heard_s: Callable[[], float] = lambda: 0.0\n",
        breaks="a task that waits in a worker for its handler is taken for one that hangs, and comes again",
        tests=("tests/sdk/test_stall_reports.py::test_what_waits_for_its_handler_is_spoken_for",),
    ),
)
