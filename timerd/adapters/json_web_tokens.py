"""JSON Web Tokens (RFC 7519) as an identity provider signs them, verified by PyJWT.

The keys are a JWK set (RFC 7517). Our own loader fetches them where they are at an address: that of PyJWT blocks the
loop. A token with an unknown key makes it look once more, though not more often than every 30 s, whatever tokens come.
Where the provider does not answer, the keys that are known stay in force.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any

import aiohttp
import jwt

from timerd.config import TOKEN_LEEWAY_S, JwtConfig
from timerd.model.errors import StartupError
from timerd.ports import KeySource

log = logging.getLogger(__name__)
# No secret that both sides know: who can verify such a token can make one.
ALGORITHMS = ("RS256", "ES256", "EdDSA")
_REQUIRED = ("exp", "iss", "aud")
FETCH_EVERY_S = 30.0
# A key that the provider has withdrawn is dropped after so long, though tokens of other keys come.
LOOK_EVERY_S = 600.0
_FETCH_S = 5.0
_MOST_BYTES = 1 << 20
# Of tokens that were verified: what a claim says does not change.
_REMEMBERED = 1_024
Fetch = Callable[[str], Awaitable[bytes]]


class FetchedKeys:
    """Implements ports.KeySource: a JWK set at an address.

    `fetch`: another way to it, for tests; `now_s`: a clock that only goes on."""

    def __init__(self, url: str, fetch: Fetch | None = None, now_s: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._fetch = fetch or fetched
        self._now_s = now_s
        self._fetched_s = now_s() - FETCH_EVERY_S

    async def changed(self, *, is_missing: bool) -> bytes | None:
        if self._now_s() - self._fetched_s < (FETCH_EVERY_S if is_missing else LOOK_EVERY_S):
            return None
        self._fetched_s = self._now_s()
        try:
            return await self._fetch(self._url)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            log.error("The JWT keys at %s could not be fetched; the old ones stay in force: %s", self._url, error)
            return None


class JwtReader:
    """Implements ports.TokenReader."""

    def __init__(self, config: JwtConfig, source: KeySource) -> None:
        self._config = config
        self._source = source
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._looking = asyncio.Lock()
        self._changed: Callable[[], None] = lambda: None
        # Hash of a token -> its claims, the oldest first.
        self._verified: dict[bytes, Mapping[str, Any]] = {}

    def on_change(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    async def prepare(self, token: str) -> None:
        """Who has a key that is known waits for nobody else's."""
        if _key_id(token) in self._keys and self._looking.locked():
            return
        async with self._looking:
            raw = await self._source.changed(is_missing=_key_id(token) not in self._keys)
            if raw is not None:
                self._take(raw)

    def claims(self, token: str) -> Mapping[str, Any] | None:
        """None: it is no token of this provider for this server, or its time is over."""
        digest = sha256(token.encode()).digest()
        known = self._verified.get(digest)
        if known is not None and known["exp"] + TOKEN_LEEWAY_S > time.time():
            return known
        found = self._verify(token)
        self._verified.pop(digest, None)
        if found is not None:
            self._verified[digest] = found
            while len(self._verified) > _REMEMBERED:
                del self._verified[next(iter(self._verified))]
        return found

    def _verify(self, token: str) -> Mapping[str, Any] | None:
        key = self._keys.get(_key_id(token))
        if key is None or key.algorithm_name not in ALGORITHMS:
            return None
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[key.algorithm_name],
                issuer=self._config.issuer,
                audience=self._config.audience,
                leeway=TOKEN_LEEWAY_S,
                options={"require": list(_REQUIRED)},
            )
        except jwt.PyJWTError:
            return None
        return claims

    def _take(self, raw: bytes) -> None:
        """What was verified by a key that is gone is not any more."""
        try:
            self._keys = keys_of(raw, self._config.keys)
        except StartupError as error:
            log.error("The JWT keys are not taken up; the old ones stay in force. %s", error)
        else:
            self._verified.clear()
            self._changed()


def keys_of(raw: bytes, source: str) -> dict[str, jwt.PyJWK]:
    """By their ids. Raises StartupError where it is no JWK set, or none of its keys can be used."""
    try:
        entries = json.loads(raw)["keys"]
        usable = [entry for entry in entries if entry.get("use", "sig") == "sig" and entry.get("kty") != "oct"]
        keys = [key for key in map(_key, usable) if key is not None]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StartupError(
            f'The JWT keys of {source} are no JWK set: write {{"keys": [...]}} as RFC 7517 says.'
        ) from error
    if not keys:
        raise StartupError(
            f"The JWT keys of {source} hold none that can be used: allowed are keys for {', '.join(ALGORITHMS)}."
        )
    return {key.key_id or "": key for key in keys}


def _key(entry: Mapping[str, Any]) -> jwt.PyJWK | None:
    """One of a kind that nobody here knows is no use, and spoils none of the others."""
    try:
        key = jwt.PyJWK.from_dict(dict(entry))
    except jwt.PyJWTError:
        return None
    return key if key.algorithm_name in ALGORITHMS else None


def _key_id(token: str) -> str:
    try:
        return str(jwt.get_unverified_header(token).get("kid", ""))
    except jwt.PyJWTError:
        return ""


async def fetched(url: str) -> bytes:
    """Raises aiohttp.ClientError, OSError, TimeoutError."""
    limits = aiohttp.ClientTimeout(total=_FETCH_S)
    async with aiohttp.ClientSession(timeout=limits) as session, session.get(url, allow_redirects=False) as answer:
        answer.raise_for_status()
        raw = bytearray()
        async for part in answer.content.iter_any():
            raw += part
            if len(raw) > _MOST_BYTES:
                raise aiohttp.ClientPayloadError(f"The JWK set has more than {_MOST_BYTES:,} bytes.")
        return bytes(raw)


__all__ = ["ALGORITHMS", "FETCH_EVERY_S", "FetchedKeys", "LOOK_EVERY_S", "JwtReader", "fetched", "keys_of"]
