"""Mistakes at the front doors."""

from tests.mutants.mutant import Mutant

_CALLS = "tests/services/test_native_calls.py"
MUTANTS = (
    Mutant(
        name="lost-reply-taken-for-read",
        guarantee="T1",
        file="timerd/services/transport/native_answers.py",
        old="        end(number not in lost)\n",
        new="        end(True)\n",
        breaks="tasks of a Receive whose caller is gone wait for the end of a lease that nobody knows of",
        tests=(f"{_CALLS}::test_a_reply_that_reaches_nobody_is_lost",),
    ),
    Mutant(
        name="worked-for-who-went",
        guarantee="T1",
        file="timerd/services/transport/native_calls.py",
        old="            if (task := self._running.get(number)) is not None:\n                task.cancel()\n",
        new="            self._running.get(number)\n",
        breaks="a caller that hung up is given tasks, and waited for until its time is over",
        tests=(f"{_CALLS}::test_who_went_is_not_waited_for",),
    ),
    Mutant(
        name="plain-where-tls-is-asked-for",
        guarantee="T1",
        file="timerd/services/transport/door_choice.py",
        old="    if config.tls.certificate_file is not None:\n",
        new="    if False:\n",
        breaks="a server that was told to speak TLS listens without it, and asks nobody for a role",
        tests=(f"{_CALLS}::test_auto_takes_the_native_door_where_it_can_serve",),
    ),
)
