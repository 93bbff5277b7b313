"""Attempts that are sent again as they were: which tokens are told apart, and for how many."""

from __future__ import annotations

from tests.unit.deliveries import SECRET, taken_of, tokens_of
from timerd.core.dispatch.given_back import GivenBack
from timerd.model.ack_token import MOST_SENDINGS, NamedDelivery, is_genuine_token, parse_token, token_bytes

FIRST = NamedDelivery(0, 42, 0)


def test_only_what_was_given_back_has_a_number() -> None:
    given_back = GivenBack()
    given_back.add(b"a", FIRST)
    assert given_back.next_number([b"b"]) == 0
    assert given_back.is_over(b"a", FIRST)
    assert given_back.next_number([b"b", b"a"]) == 1
    assert not given_back.is_over(b"a", FIRST), "somebody has it"
    assert given_back.next_number([b"a"]) == 0
    given_back.add(b"a", FIRST._replace(number=1))
    assert given_back.next_number([b"a"]) == 2


def test_what_is_over_is_that_attempt_of_that_holder() -> None:
    given_back = GivenBack()
    given_back.add(b"a", FIRST._replace(number=3))
    assert given_back.is_over(b"a", FIRST)
    assert not given_back.is_over(b"a", FIRST._replace(version=1))
    assert not given_back.is_over(b"a", FIRST._replace(fencing_token=41))


def test_of_more_than_are_kept_all_that_is_sent_has_a_number() -> None:
    given_back = GivenBack(most=2)
    for delivery_id in (b"a", b"b", b"c"):
        given_back.add(delivery_id, FIRST)
    assert not given_back.is_over(b"a", FIRST)
    assert [given_back.next_number([each]) for each in (b"a", b"d")] == [1, 2]


def test_numbers_come_again_only_after_all_of_them() -> None:
    given_back = GivenBack()
    numbers = []
    for _ in range(MOST_SENDINGS + 1):
        given_back.add(b"a", FIRST)
        numbers.append(given_back.next_number([b"a"]))
    assert numbers[:-1] == list(range(1, MOST_SENDINGS + 1))
    assert numbers[-1] == 1


def test_the_number_is_sealed_with_the_token() -> None:
    taken = taken_of([1])
    plain = parse_token(tokens_of(taken))
    taken.sending = 7
    token = tokens_of(taken)
    assert parse_token(token) == plain._replace(sending=7)
    assert token == token_bytes(SECRET, "default", plain._replace(sending=7))
    assert is_genuine_token(token, SECRET, "default")
    numbered = bytearray(tokens_of(taken_of([1])))
    numbered[54] = 7
    assert not is_genuine_token(bytes(numbered), SECRET, "default")
