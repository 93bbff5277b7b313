"""Who may do what: a file with a line for each caller, read again when it changes.

    # name     roles                   proof
    mails      schedule,work           sha256:5d41...       the SHA-256 of a token, in hex
    orders     schedule@shop           cert:orders.example  a name in a client certificate (SAN or CN)

Roles are those of transport/roles.py. The file holds no token, so that reading it gives nobody a role.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from timerd.model.errors import StartupError
from timerd.services.transport.roles import FORM, Role, parse_roles
from timerd.services.transport.watched_files import WatchedFile, read_watched

log = logging.getLogger(__name__)
_TOKEN = re.compile(r"sha256:([0-9a-f]{64})")
_CERTIFICATE = re.compile(r"cert:(\S+)")


class Principal(NamedTuple):
    name: str
    roles: frozenset[Role]


class Principals:
    """`of_token` and `of_names` find the caller, or nobody, as of the last `refresh`."""

    def __init__(self, path: Path) -> None:
        self._changed: Callable[[], None] = lambda: None
        self._file = WatchedFile(path)
        self._by_proof = read_principals(path)

    def of_token(self, token: str) -> Principal | None:
        """By its hash: how long the look-up takes says nothing of the token."""
        return self._by_proof.get(f"sha256:{sha256(token.encode()).hexdigest()}")

    def of_names(self, names: Iterable[str]) -> Principal | None:
        """The names in a certificate that has been verified."""
        found = (self._by_proof.get(f"cert:{name}") for name in names)
        return next((each for each in found if each is not None), None)

    def on_change(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def refresh(self) -> None:
        """Takes the file up where it is another one."""
        if not self._file.has_changed():
            return
        try:
            self._by_proof = read_principals(self._file.path)
        except StartupError as error:
            log.error("The principals changed and are not taken up; the old ones stay in force. %s", error)
        else:
            log.info("The principals were taken up anew from %s", self._file.path)
            self._changed()


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
        if not (_TOKEN.fullmatch(proof) or _CERTIFICATE.fullmatch(proof)):
            raise StartupError(
                f"{path}, line {number}: the proof of {name} must be sha256: and 64 hex digits (`timerd token` makes "
                "one), or cert: and a name."
            )
        if proof in found:
            raise StartupError(f"{path}, line {number}: {name} has the proof of {found[proof].name}.")
        found[proof] = Principal(name, parsed)
    return found
