"""Certificates for tests, made by openssl: an authority, and what it signs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Pair(NamedTuple):
    certificate: Path
    key: Path


class Authority:
    """Its own certificate is `certificate`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self.certificate, self._key = folder / f"{name}.pem", folder / f"{name}-key.pem"
        _openssl(
            "req", "-x509", *_KEY, "-days", "2", "-subj", f"/CN={name}", "-keyout", self._key, "-out", self.certificate
        )

    def sign(self, name: str, *hosts: str) -> Pair:
        """For servers, callers or both; `hosts` as in DNS:localhost or IP:127.0.0.1."""
        made = Pair(self._folder / f"{name}.pem", self._folder / f"{name}-key.pem")
        request, more = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        more.write_text(f"subjectAltName={','.join(hosts or (f'DNS:{name}',))}\n")
        _openssl("req", *_KEY, "-subj", f"/CN={name}", "-keyout", made.key, "-out", request)
        signing = ("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial", "-days", "2", "-extfile", more)
        _openssl("x509", "-req", "-in", request, *signing, "-out", made.certificate)
        return made


def _openssl(*arguments: str | Path) -> None:
    made = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, check=False)
    assert made.returncode == 0, made.stderr.decode()
