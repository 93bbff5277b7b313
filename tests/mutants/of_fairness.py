"""Mistakes in whose turn it is among the limit keys of a queue, and in what each may have."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="key-in-hand-forgotten",
        guarantee="G22",
        file="timerd/core/regulation/key_limits.py",
        old="        in_hand = self._hands.open(queue, limit_key) + picked\n",
        new="        in_hand = picked\n",
        breaks="a key has more in hand than its limit",
        tests=("tests/fundamentals/test_limit_keys.py::test_a_key_has_no_more_in_hand_than_its_limit",),
    ),
    Mutant(
        name="first-come-first-served",
        guarantee="G22",
        file="timerd/core/fairness/turns.py",
        old="        line.tag += rows / line.weight\n",
        new="        line.tag -= rows\n",
        breaks="the key that came first is served until it has nothing due any more",
        tests=("tests/fundamentals/test_limit_keys.py::test_others_come_in_turn_with_a_customer_who_has_much",),
    ),
    Mutant(
        name="weights-forgotten",
        guarantee="G22",
        file="timerd/core/fairness/turns.py",
        old="        line.tag += rows / line.weight\n",
        new="        line.tag += rows\n",
        breaks="a key of weight three starts no more than the others",
        tests=("tests/fundamentals/test_limit_keys.py::test_shares_are_those_of_the_weights",),
    ),
    Mutant(
        name="nobody-hears-of-a-key",
        guarantee="G22",
        file="timerd/core/dispatch/key_hands.py",
        old="        self.less(deliveries)\n",
        new="        self.open -= deliveries\n",
        breaks="a key that has reached its limit is never looked at again",
        tests=("tests/fundamentals/test_limit_keys.py::test_a_key_has_no_more_in_hand_than_its_limit",),
    ),
    Mutant(
        name="idle-key-saves-turns",
        guarantee="G22",
        file="timerd/core/fairness/turns.py",
        old="            tag = max(self._reached, self._tags.pop(limit_key, 0.0))\n",
        new="            tag = self._tags.pop(limit_key, 0.0)\n",
        breaks="a key that had nothing due for long is served alone until it has made up for it",
        tests=("tests/unit/test_turns.py::test_who_comes_later_has_saved_no_turns",),
    ),
    Mutant(
        name="filed-holds-no-mark",
        guarantee="G22",
        file="timerd/core/partition/rows_in_hand.py",
        old="        found = self.waiting.oldest_ms(), self.ordered.oldest_ms(), self.keyed.oldest_ms()\n",
        new="        found = self.waiting.oldest_ms(), self.ordered.oldest_ms()\n",
        breaks="the mark passes what waits for its turn, and a crash loses it",
        tests=("tests/simulator/test_limit_keys.py::test_no_key_is_above_its_limit_and_each_has_its_turn",),
    ),
    Mutant(
        name="unsent-takes-a-turn",
        guarantee="G22",
        file="timerd/core/fairness/turns.py",
        old="        line.tag -= rows / line.weight\n",
        new="        line.tag -= 0\n",
        breaks="what was cancelled takes turns, so the key that has cancelled much waits for nothing",
        tests=("tests/fundamentals/test_limit_keys.py::test_what_is_cancelled_or_expires_in_its_turn_takes_none",),
    ),
)
