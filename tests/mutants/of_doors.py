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
        file="timerd/services/transport/native_door.py",
        old="                tls=files.current if files is not None else None,\n",
        new="                tls=None,\n",
        breaks="a server that was told to speak TLS listens without it",
        tests=(f"{_CALLS}::test_a_server_that_was_told_to_speak_tls_never_listens_without",),
    ),
    Mutant(
        name="certificate-forgotten",
        guarantee="T1",
        file="timerd/services/transport/native_calls.py",
        old="    return Caller(certificate=_certificate(names) if names is not None else {}, peer=peer)\n",
        new="    return Caller(peer=peer)\n",
        breaks="who shows a certificate at the native door is nobody, and has no role",
        tests=(f"{_CALLS}::test_handlers_see_what_the_caller_has_shown",),
    ),
    Mutant(
        name="streams-of-nobody",
        guarantee="T1",
        file="timerd/services/transport/passed_on.py",
        old="        return self._caller.certificate\n",
        new='        return getattr(self._context, "auth_context")()\n',
        breaks="a stream that the native door passes on is judged by the socket between the two, not by its caller",
        tests=(f"{_CALLS}::test_a_call_that_was_passed_on_is_that_of_who_made_it",),
    ),
    Mutant(
        name="old-certificate-for-ever",
        guarantee="T1",
        file="timerd/services/transport/native_tls.py",
        old="            self._wire.renew(fresh)\n",
        new="            self._wire.shown(0)\n",
        breaks="a certificate that was renewed is not shown until the next start, by when the old one has ended",
        tests=(f"{_CALLS}::test_a_handshake_goes_on_when_the_files_have_been_looked_at",),
    ),
)
