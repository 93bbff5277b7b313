"""Signatures of Standard Webhooks (version 1.0.0): HMAC-SHA256 over id, timestamp and body.

On bytes, for a payload need not be text. One signature for each secret in force, so that a secret is changed without a
moment in which its receiver can verify nothing.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence

PREFIX = "whsec_"
# As the specification bounds them.
LEAST_BYTES, MOST_BYTES = 24, 64


def parse_secret(text: str) -> bytes:
    """The key that `whsec_` and base64 stand for. Raises ValueError, which says what is allowed and repeats nothing."""
    says = f"write {PREFIX} and the base64 of {LEAST_BYTES} to {MOST_BYTES} random bytes"
    if not text.startswith(PREFIX):
        raise ValueError(says)
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(says) from None
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise ValueError(says)
    return key


def signature_header(keys: Sequence[bytes], webhook_id: str, timestamp_s: int, body: bytes) -> str:
    """The value of `webhook-signature`, in the order of the keys. The id has no full stop: that parts the three."""
    signed = f"{webhook_id}.{timestamp_s}.".encode() + body
    return " ".join([f"v1,{base64.b64encode(hmac.digest(key, signed, 'sha256')).decode()}" for key in keys])
