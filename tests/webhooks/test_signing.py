"""Signatures of Standard Webhooks: by its published example, and by a verification of our own."""

from __future__ import annotations

import base64
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.webhooks.receiver import Received, is_verified
from timerd.core.webhooks.signing import parse_secret, signature_header

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_the_published_example() -> None:
    """That of the reference implementations."""
    signed = signature_header(
        [parse_secret(SECRET)], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(st.lists(st.binary(min_size=24, max_size=64), min_size=1, max_size=3, unique=True), st.binary(max_size=200))
def test_each_key_verifies_and_no_other_does(keys: list[bytes], body: bytes) -> None:
    headers = {"webhook-id": "AbC-_1", "webhook-timestamp": "1700000000"}
    headers["webhook-signature"] = signature_header(keys, "AbC-_1", 1_700_000_000, body)
    received = Received("/", headers, body)
    for key in keys:
        assert is_verified(received, "whsec_" + base64.b64encode(key).decode(), 1_700_000_100)
        other = bytes([key[0] ^ 1]) + key[1:]
        if other not in keys:
            assert not is_verified(received, "whsec_" + base64.b64encode(other).decode(), 1_700_000_100)
    assert not is_verified(received._replace(body=body + b"."), "whsec_" + base64.b64encode(keys[0]).decode(), 1.7e9)


WRONG = [
    SECRET.removeprefix("whsec_"),
    "whsec_",
    "whsec_" + base64.b64encode(b"x" * 23).decode(),
    "whsec_" + base64.b64encode(b"x" * 65).decode(),
    "whsec_*" + SECRET.removeprefix("whsec_"),
    "whsk_" + SECRET.removeprefix("whsec_"),
]


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_secret_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape("write whsec_ and the base64 of 24 to 64 random bytes")) as refused:
        parse_secret(text)
    assert str(refused.value) == "write whsec_ and the base64 of 24 to 64 random bytes"
