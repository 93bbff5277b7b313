"""Mistakes in what a task has come to, and in who hears of it."""

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="ended-without-its-result",
        guarantee="R1",
        file="timerd/services/work/work_service.py",
        old="            stream.confirm(Confirmation(asked.sequence, count, error=again))\n            return\n",
        new="            del again\n",
        breaks="a task is found acknowledged whose result was lost",
        tests=("tests/fundamentals/test_results.py::test_a_task_whose_result_is_not_durable_has_not_ended",),
    ),
    Mutant(
        name="posted-without-its-result",
        guarantee="R1",
        file="timerd/services/webhooks/results.py",
        old="            await asyncio.sleep(AGAIN_AFTER_S)\n",
        new="            return\n",
        breaks="a webhook is found acknowledged whose answer was lost",
        tests=("tests/webhooks/test_deliveries.py::test_a_result_that_is_not_durable_yet_costs_no_second_request",),
    ),
    Mutant(
        name="told-before-it-listens",
        guarantee="R1",
        file="timerd/services/calls/task_ends.py",
        old="                heard.clear()\n                view = await look()\n",
        new="                view = await look()\n                heard.clear()\n",
        breaks="who has just looked misses the end, and waits for its next look",
        tests=("tests/services/test_task_ends.py::test_an_end_between_the_look_and_the_wait_is_heard",),
    ),
    Mutant(
        name="waits-at-a-server-that-leaves",
        guarantee="R1",
        file="timerd/services/calls/task_ends.py",
        old="        self._is_stopped = True\n",
        new="",
        breaks="a server that goes away keeps whoever waits until their time is over",
        tests=("tests/services/test_task_ends.py::test_a_server_that_goes_away_keeps_nobody",),
    ),
)
