"""Mistakes on the way from a task to an entry of a stream."""

from tests.mutants.mutant import Mutant

ENTRIES = "tests/streams/test_entries.py"
MUTANTS = (
    Mutant(
        name="refused-and-acknowledged",
        guarantee="G3",
        file="timerd/services/streams/sink.py",
        old="        taken = [each for each, why in zip(done, said, strict=True) if not why]\n",
        new="        taken = [*done]\n        said = [] * len(said)\n",
        breaks="a task is acknowledged whose entry the stream has refused",
        tests=(f"{ENTRIES}::test_a_key_that_is_no_stream_says_so_in_the_error",),
    ),
    Mutant(
        name="repeats-appended",
        guarantee="G5",
        file="timerd/adapters/redis/stream_writing.py",
        old="if redis.call('EXISTS', KEYS[2]) == 1 then",
        new="if redis.call('EXISTS', KEYS[2]) == 2 then",
        breaks="a task is in the stream twice whose first answer was lost",
        tests=(f"{ENTRIES}::test_a_repeat_whose_first_answer_was_lost_is_left_out",),
    ),
    Mutant(
        name="repeat-of-what-was-refused",
        guarantee="G3",
        file="timerd/adapters/redis/stream_writing.py",
        old="local entry\n",
        new="redis.call('SET', KEYS[2], '1', 'EX', ARGV[1])\nlocal entry\n",
        breaks="what Redis has refused counts as a repeat of itself, and is acknowledged",
        tests=(f"{ENTRIES}::test_what_redis_refuses_comes_again_until_it_is_taken",),
    ),
    Mutant(
        name="tried-while-the-stream-is-away",
        guarantee="G5",
        file="timerd/services/streams/sink.py",
        old="            if self.state is not TargetState.OK:\n                self._give_back()\n",
        new="",
        breaks="all that is in hand uses up an attempt when the stream goes away",
        tests=(f"{ENTRIES}::test_a_redis_that_is_away_uses_up_one_attempt_and_is_then_left_in_peace",),
    ),
)
