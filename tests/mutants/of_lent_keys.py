"""Mistakes in how instances lend each other the permits of limit keys."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PERMITS, _KEEPER = "timerd/core/regulation/key_permits.py", "timerd/core/regulation/key_permit_keeper.py"
_HISTORIES = "tests/property/test_lent_keys.py::test_no_key_is_above_its_limit_and_all_are_free_and_forgotten_at_rest"

MUTANTS = (
    Mutant(
        name="key-sent-without-a-permit",
        guarantee="G22",
        file="timerd/core/regulation/key_limits.py",
        old="        free = self._lent.free(key) - picked\n",
        new="        free = self._lent.most_of(key) - self._hands.open(queue, limit_key) - picked\n",
        breaks="each instance of a cluster counts a key for itself",
        tests=("tests/cluster/test_lent_keys.py::test_three_instances_keep_to_the_limit_of_each_key",),
    ),
    Mutant(
        name="key-moved-without-a-word",
        guarantee="G22",
        file=_PERMITS,
        old="        each.moved += deliveries\n",
        new="",
        breaks="the permit of a delivery that another instance has got is free before anybody says that it is in hand",
        tests=(_HISTORIES,),
    ),
    Mutant(
        name="few-to-a-new-keeper",
        guarantee="G22",
        file=_PERMITS,
        old="for key in (self._keys if is_whole else self._news)",
        new="for key in self._news",
        breaks="a new keeper takes what has not changed for nothing",
        tests=(_HISTORIES,),
    ),
    Mutant(
        name="late-statement-counts",
        guarantee="G22",
        file=_KEEPER,
        old="        return said.is_whole if known is None else said.seq > known.seq\n",
        new="        return said.is_whole if known is None else True\n",
        breaks="what a key had a moment ago comes late, and what it has got since is lent once more",
        tests=(_HISTORIES,),
    ),
    Mutant(
        name="changed-key-unsaid",
        guarantee="G22",
        file=_PERMITS,
        old="            if has != each.confirmed or each.wants or each.moved:\n",
        new="            if each.wants or each.moved:\n",
        breaks="the keeper never hears that permits were given back",
        tests=(_HISTORIES,),
    ),
    Mutant(
        name="adopted-key-unsaid",
        guarantee="G22",
        file=_PERMITS,
        old="        return max(each.permits, hands.own) + hands.adopted\n",
        new="        return max(each.permits, hands.own)\n",
        breaks="the permit of a delivery that was adopted from a dead instance is lent once more",
        tests=("tests/property/test_lent_keys.py::test_what_was_adopted_is_stated_before_it_is_free",),
    ),
    Mutant(
        name="brought-yet-answered",
        guarantee="G22",
        file=_PERMITS,
        old="        if is_known:\n            self._stated_round",
        new="        if is_known or token:\n            self._stated_round",
        breaks="a delivery of the key that a worker has brought is not counted, since nobody has looked up whose it is",
        tests=(
            "tests/property/test_lent_keys.py::test_who_does_not_know_what_its_workers_have_does_not_answer_a_round",
        ),
    ),
    Mutant(
        name="share-of-what-each-has",
        guarantee="G22",
        file="timerd/core/regulation/lent_keys.py",
        old="        return min(own or share, share or own)\n",
        new="        return own\n",
        breaks="nobody lends the share of a key, so in a cluster one customer has all of the queue",
        tests=(
            "tests/cluster/test_lent_keys.py::test_a_share_is_one_of_what_all_instances_may_have_in_hand",
            "tests/unit/test_lent_key_shares.py::test_the_share_is_lent_as_a_limit_of_the_key",
        ),
    ),
    Mutant(
        name="share-of-no-whole",
        guarantee="G22",
        file="timerd/services/regulation/regulating.py",
        old="        if not counts_hands(rules.limit):\n",
        new="        if rules.keys is None:\n",
        breaks="a share in a cluster is stored for a queue of which nobody knows the whole, and holds nowhere",
        tests=("tests/cluster/test_lent_keys.py::test_a_share_of_what_nobody_counts_is_refused",),
    ),
    Mutant(
        name="keys-of-an-older-release",
        guarantee="G22",
        file="timerd/services/regulation/regulating.py",
        old="        kept = with_need(kept, LENDS_KEYS)\n",
        new="",
        breaks="an instance of a release that counts for itself sends beside the others",
        tests=(
            "tests/cluster/test_lent_keys.py::test_instances_that_count_for_themselves_send_nothing_of_such_a_queue",
        ),
    ),
)
