"""Who may do what: a file with a line for each caller, read again when it changes.

    # name     roles                   proof
    mails      schedule,work           sha256:5d41...       the SHA-256 of a token, in hex
    orders     schedule@shop           cert:orders.example  a name in a client certificate (SAN or CN)
    admins     operate                 jwt:groups=admins    a claim in a token that the identity provider has signed

Roles are those of transport/roles.py. The file holds no token, so that reading it gives nobody a role.
"""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from timerd.config import TOKEN_LEEWAY_S
from timerd.model.errors import StartupError
from timerd.ports import TokenReader
from timerd.services.transport.roles import FORM, Role, parse_roles
from timerd.services.transport.watched_files import WatchedFile, read_watched

log = logging.getLogger(__name__)
_TOKEN = re.compile(r"sha256:([0-9a-f]{64})")
_CERTIFICATE = re.compile(r"cert:(\S+)")
_CLAIM = re.compile(r"jwt:([^\s=]+)=(\S+)")
# Claims that are words with spaces between them (RFC 8693). In others a space is part of what somebody has chosen.
_WORDS = ("scope", "scp")
_NAME_CHARS = 80


class Principal(NamedTuple):
    name: str
    roles: frozenset[Role]


class Principals:
    """`of_token` and `of_names` find the caller, or nobody, as of the last `refresh`."""

    def __init__(self, path: Path, tokens: TokenReader | None = None) -> None:
        """`tokens`: reads those that an identity provider has signed, where there is one."""
        self._changed: Callable[[], None] = lambda: None
        self._file = WatchedFile(path)
        self._by_proof = read_principals(path)
        self._tokens = tokens
        if tokens is not None:
            tokens.on_change(self._tell)
        # When tokens that were believed end, and the soonest of them.
        self._ends_s: set[float] = set()
        self._next_end_s = math.inf

    async def prepare(self, token: str) -> None:
        """What is needed to judge the token is here, where it can be had."""
        if self._tokens is not None and _is_signed(token):
            await self._tokens.prepare(token)

    def of_token(self, token: str) -> Principal | None:
        """By its hash: how long the look-up takes says nothing of the token. Or by what it says itself."""
        found = self._by_proof.get(f"sha256:{sha256(token.encode()).hexdigest()}")
        if found is not None or self._tokens is None or not _is_signed(token):
            return found
        claims = self._tokens.claims(token)
        return None if claims is None else self._of_claims(claims)

    def _of_claims(self, claims: Mapping[str, Any]) -> Principal | None:
        """With the roles of all lines that speak of it, by the name that it gives itself."""
        lines = [each for proof, each in self._by_proof.items() if _speaks_of(proof, claims)]
        if not lines:
            return None
        self._ends_s.add(float(claims["exp"]))
        self._next_end_s = min(self._next_end_s, float(claims["exp"]))
        # Nobody is taken for a line of the file who only calls himself so.
        name = f"jwt:{claims['sub']}" if claims.get("sub") else lines[0].name
        return Principal(name[:_NAME_CHARS], frozenset().union(*(each.roles for each in lines)))

    def of_names(self, names: Iterable[str]) -> Principal | None:
        """The names in a certificate that has been verified."""
        found = (self._by_proof.get(f"cert:{name}") for name in names)
        return next((each for each in found if each is not None), None)

    def on_change(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def _tell(self) -> None:
        self._changed()

    def refresh(self) -> None:
        """Takes the file up where it is another one, and has those looked at whose tokens have ended."""
        if self._has_ended():
            self._changed()
        if not self._file.has_changed():
            return
        try:
            self._by_proof = read_principals(self._file.path)
        except StartupError as error:
            log.error("The principals changed and are not taken up; the old ones stay in force. %s", error)
        else:
            log.info("The principals were taken up anew from %s", self._file.path)
            self._changed()

    def _has_ended(self) -> bool:
        """Whether a token that was believed has ended since the last look."""
        over_s = time.time() - TOKEN_LEEWAY_S
        if self._next_end_s >= over_s:
            return False
        self._ends_s = {end_s for end_s in self._ends_s if end_s >= over_s}
        self._next_end_s = min(self._ends_s, default=math.inf)
        return True


def _is_signed(token: str) -> bool:
    return token.count(".") == 2


def _speaks_of(proof: str, claims: Mapping[str, Any]) -> bool:
    claim = _CLAIM.fullmatch(proof)
    if claim is None:
        return False
    said, wanted = _said(claims, claim[1]), claim[2]
    if isinstance(said, str):
        return wanted == said or (claim[1] in _WORDS and wanted in said.split())
    return isinstance(said, list) and wanted in said


def _said(claims: Mapping[str, Any], name: str) -> object:
    """A claim of that name, or one within another: realm_access.roles."""
    if name in claims:
        return claims[name]
    first, _, rest = name.partition(".")
    inner = claims.get(first)
    return _said(inner, rest) if rest and isinstance(inner, Mapping) else None


def read_principals(path: Path) -> dict[str, Principal]:
    """Proof -> who shows it. Raises StartupError, which names the line and repeats nothing of its proof."""
    try:
        lines = read_watched(path, "file of principals").decode().splitlines()
    except UnicodeDecodeError as error:
        raise StartupError(f"The file of principals {path} is not UTF-8: {error}.") from error
    found: dict[str, Principal] = {}
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) != 3:
            raise StartupError(f"{path}, line {number}: write NAME ROLES PROOF, three words.")
        name, roles, proof = words
        try:
            parsed = parse_roles(roles)
        except ValueError as wrong:
            raise StartupError(f"{path}, line {number}: {wrong} is no role for {name}: {FORM}.") from wrong
        if not any(form.fullmatch(proof) for form in (_TOKEN, _CERTIFICATE, _CLAIM)):
            raise StartupError(
                f"{path}, line {number}: the proof of {name} must be sha256: and 64 hex digits (`timerd token` makes "
                "one), cert: and a name, or jwt: and CLAIM=VALUE."
            )
        if proof in found:
            raise StartupError(f"{path}, line {number}: {name} has the proof of {found[proof].name}.")
        found[proof] = Principal(name, parsed)
    return found
