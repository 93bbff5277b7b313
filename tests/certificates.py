"""Certificates for tests, made by openssl: an authority, and what it signs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

CURVE = "prime256v1"


class Pair(NamedTuple):
    certificate: Path
    key: Path


class Authority:
    """Its own certificate is `certificate`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self.certificate, self._key = folder / f"{name}.pem", folder / f"{name}-key.pem"
        into = ("-keyout", self._key, "-out", self.certificate)
        _openssl("req", "-x509", *_key(CURVE), "-days", "2", "-subj", f"/CN={name}", *into)

    def own_pair(self) -> Pair:
        """It signed itself, and may sign others."""
        return Pair(self.certificate, self._key)

    def sign(
        self,
        name: str,
        *hosts: str,
        subject: str = "",
        extensions: str = "",
        curve: str = CURVE,
        days: int = 2,
    ) -> Pair:
        """For servers, callers or both; `hosts` as in DNS:localhost or IP:127.0.0.1. `subject`: another one than the
        name; `extensions`: all of them, as openssl has them in a file; `days` may be over."""
        made = Pair(self._folder / f"{name}.pem", self._folder / f"{name}-key.pem")
        request, more = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        more.write_text(extensions or f"subjectAltName={','.join(hosts or (f'DNS:{name}',))}\n")
        _openssl("req", "-utf8", *_key(curve), "-subj", subject or f"/CN={name}", "-keyout", made.key, "-out", request)
        lasting = ("-CAcreateserial", "-days", str(days), "-extfile", more)
        signing = ("-CA", self.certificate, "-CAkey", self._key, *lasting)
        _openssl("x509", "-req", "-in", request, *signing, "-out", made.certificate)
        return made


def _key(curve: str) -> tuple[str, ...]:
    return "-newkey", "ec", "-pkeyopt", f"ec_paramgen_curve:{curve}", "-nodes"


def _openssl(*arguments: str | Path) -> None:
    made = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, check=False)
    assert made.returncode == 0, made.stderr.decode()
