"""A hinted row fires from memory, before it is ever read from the store. So what comes by a way that others can write
to is believed only with a seal: a keyed hash by the cluster's secret, over the channel as well, so that what was meant
for an earlier life of an instance, or for another one, is nothing here.
"""

from __future__ import annotations

from hashlib import blake2b
from hmac import compare_digest

# Of the layout: version, seal, content. Another version is not understood, and dropped.
VERSION = b"\x01"
SEAL_BYTES = 32


class HintSeal:
    """Of one cluster."""

    def __init__(self, secret: bytes) -> None:
        self._key = blake2b(b"hints", digest_size=32, key=secret, person=b"timerd.hints").digest()
        # Clusters that share an engine for messages do not meet, and it learns no secret.
        self._cluster = blake2b(b"channels", digest_size=8, key=self._key).hexdigest()

    def channel(self, name: str, incarnation: int) -> str:
        return f"timerd:hints:{self._cluster}:{name}:{incarnation}"

    def close(self, channel: str, content: bytes) -> bytes:
        return VERSION + self._seal(channel, content) + content

    def open(self, channel: str, message: bytes) -> bytes | None:
        """None: it was not sealed here, or its layout is another one."""
        body = len(VERSION) + SEAL_BYTES
        content = message[body:]
        if not compare_digest(message[:body], VERSION + self._seal(channel, content)):
            return None
        return content

    def _seal(self, channel: str, content: bytes) -> bytes:
        seal = blake2b(VERSION, digest_size=SEAL_BYTES, key=self._key)
        name = channel.encode()
        seal.update(len(name).to_bytes(4, "big") + name)
        seal.update(content)
        return seal.digest()
