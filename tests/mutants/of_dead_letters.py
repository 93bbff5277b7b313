"""Mistakes in how dead letters go for good."""

from tests.mutants.mutant import Mutant

_FILE = "tests/fundamentals/test_purge_dead_letters.py"
MUTANTS = (
    Mutant(
        name="dry-run-removes",
        guarantee="G3",
        file="timerd/services/calls/dead_letter_purge.py",
        old="if request.force and free else len(free)",
        new="if free else len(free)",
        breaks="who only asks how many dead letters there are has none any more",
        tests=(f"{_FILE}::test_a_dry_run_says_how_many_there_are_and_removes_none",),
    ),
    Mutant(
        name="purges-a-later-life",
        guarantee="G3",
        file="timerd/services/engine/engine.py",
        old="        later = [letter for letter in taken if letter.key.version != versions[letter.task_id]]\n",
        new="        later = [letter for letter in taken if letter.task_id not in versions]\n",
        breaks="a task that was redriven and died again is gone, and nobody was told that it would be",
        tests=(f"{_FILE}::test_what_has_died_again_meanwhile_stays",),
    ),
    Mutant(
        name="purges-what-halts-a-key",
        guarantee="G3",
        file="timerd/services/calls/dead_letter_purge.py",
        old="        free = [letter for letter in found if letter.task_id not in halting]\n",
        new="        free = list(found)\n",
        breaks="after a restart the key goes on past a task that nobody has skipped",
        tests=(f"{_FILE}::test_what_halts_its_ordering_key_stays_until_the_key_goes_on",),
    ),
)
