"""Mistakes in what a worker hears of a task that was cancelled in its hands."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="interrupt-once",
        guarantee="G7",
        file="timerd/services/dispatch/delivery.py",
        old="        self._interrupting.repeat(sink, tokens, held)\n",
        new="",
        breaks="one message that is lost, and the worker goes on with a cancelled task",
        tests=(
            "tests/services/test_interrupting.py::test_what_was_said_on_a_broken_stream_is_said_on_the_next_one",
            "tests/fundamentals/test_interrupts.py::test_a_message_that_is_lost_costs_the_time_to_the_next_sign_of_life",
        ),
    ),
    Mutant(
        name="interrupt-waits-for-a-sign-of-life",
        guarantee="G7",
        file="timerd/services/dispatch/delivery.py",
        old="        self._interrupting.repeat_soon(sink, tokens, held)\n",
        new="",
        breaks="a worker that comes back goes on for a third of its lease with a task that was cancelled meanwhile",
        tests=("tests/services/test_interrupting.py::test_what_was_said_on_a_broken_stream_is_said_on_the_next_one",),
    ),
    Mutant(
        name="interrupt-forgotten-at-a-restart",
        guarantee="G7",
        file="timerd/services/dispatch/interrupting.py",
        old="        if brought and sink.number not in self._looking:\n",
        new="        if False and brought:\n",
        breaks="after a restart nobody tells a worker that what it has was cancelled",
        tests=("tests/fundamentals/test_interrupts.py::test_a_server_that_starts_anew_knows_it_from_the_store",),
    ),
    Mutant(
        name="interrupted-and-dead",
        guarantee="G7",
        file="timerd/core/dispatch/settlement.py",
        old="    if failure.hopeless or (is_exhausted(policy, key.version) and not is_stopped):\n",
        new="    if failure.hopeless or is_exhausted(policy, key.version):\n",
        breaks="a cancelled task whose handler gives up on its last attempt becomes a dead letter",
        tests=(
            "tests/services/test_interrupting.py::test_an_only_attempt_that_ends_by_it_leaves_no_dead_letter",
            "tests/fundamentals/test_interrupts.py::test_a_handler_that_ends_by_it_leaves_a_cancelled_task",
        ),
    ),
    Mutant(
        name="interrupted-as-it-returns",
        guarantee="G7",
        file="timerd/sdk/working/interrupting.py",
        old="    ended = asyncio.CancelledError, ProcessDied\n",
        new="    ended = Exception, asyncio.CancelledError\n",
        breaks="what a handler raises on its way out is lost",
        tests=("tests/sdk/test_interrupts.py::test_one_that_fails_on_the_way_has_failed_by_that",),
    ),
    Mutant(
        name="cancel-waits-for-nobody",
        guarantee="G7",
        file="timerd/services/calls/cancelling.py",
        old="answer is CancelAnswer.IN_FLIGHT:\n",
        new="answer is CancelAnswer.PENDING:\n",
        breaks="a cancel that is to wait says at once that a worker has the task",
        tests=("tests/fundamentals/test_cancel_wait.py::test_it_waits_for_the_handler_that_is_interrupted",),
    ),
    Mutant(
        name="a-longer-wait-is-another-call",
        guarantee="G2",
        file="timerd/services/calls/mutations.py",
        old='        named.ClearField("wait")\n',
        new="",
        breaks="a repeat by key that waits longer cancels the task that has the key by then",
        tests=(
            "tests/fundamentals/test_cancel_wait.py::test_at_its_end_the_worker_has_it_still_and_a_repeat_waits_on",
        ),
    ),
)
