"""What comes from other instances as a hint, past them by a way that others can write to: G12."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="seal-not-looked-at",
        guarantee="G12",
        file="timerd/services/peers/hint_seal.py",
        old="        if not compare_digest(message[:body], VERSION + self._seal(channel, content)):\n",
        new="        if message[: len(VERSION)] != VERSION:\n",
        breaks="whoever may write to Redis makes a row fire that nobody has stored",
        tests=(
            "tests/cluster/test_second_way.py::test_what_others_write_there_harms_nothing",
            "tests/cluster/test_second_way.py::test_a_seal_is_for_one_channel_of_one_cluster",
        ),
    ),
    Mutant(
        name="seal-for-any-channel",
        guarantee="G12",
        file="timerd/services/peers/hint_seal.py",
        old='        seal.update(len(name).to_bytes(4, "big") + name)\n',
        new="",
        breaks="what was said to one instance can be said to another one, or to its next life",
        tests=(
            "tests/cluster/test_second_way.py::test_what_others_write_there_harms_nothing",
            "tests/cluster/test_second_way.py::test_a_seal_is_for_one_channel_of_one_cluster",
        ),
    ),
    Mutant(
        name="hints-fire-as-often-as-they-come",
        guarantee="G12",
        file="timerd/services/holding/scheduler.py",
        old="machine.hint(rows, source, may_repeat=may_repeat or not self._settings.traits.knows_repeats)",
        new="machine.hint(rows, source, may_repeat=may_repeat)",
        breaks="a hint that is called in vain and comes by Redis as well fires its task twice",
        tests=("tests/cluster/test_second_way.py::test_a_hint_that_comes_by_both_ways_fires_once",),
    ),
)
