"""Where the server may listen, decided before anything is opened: off loopback only with TLS, or said aloud."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import NamedTuple

from timerd.config import ServerConfig
from timerd.model.errors import StartupError


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Tls(NamedTuple):
    """Both in PEM."""

    certificate: bytes
    key: bytes


def parse_listen(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise StartupError(
            f"Cannot listen on {text!r}: write HOST:PORT with a port of 0 to 65535, as in 127.0.0.1:7400 or [::1]:7400."
        )
    return Address(host, int(port))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_listen(config: ServerConfig) -> Address:
    """Raises StartupError where the address would be open to others without TLS."""
    address = parse_listen(config.listen)
    if (config.tls_certificate is None) != (config.tls_key is None):
        raise StartupError("TLS needs two files: give both a certificate and its key, or neither.")
    if not (is_loopback(address.host) or config.tls_certificate or config.insecure):
        raise StartupError(
            f"Refusing to listen on {address} without TLS: everybody who reaches it could read and change all tasks. "
            "Give a TLS certificate and key, listen on 127.0.0.1, or say --insecure if the network itself is trusted."
        )
    return address


def read_tls(config: ServerConfig) -> Tls | None:
    if config.tls_certificate is None or config.tls_key is None:
        return None
    return Tls(_pem(config.tls_certificate, "certificate", b"CERTIFICATE"), _pem(config.tls_key, "key", b"PRIVATE KEY"))


def _pem(path: Path, what: str, mark: bytes) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StartupError(f"Cannot read the TLS {what} {path}: {error.strerror}.") from error
    if mark + b"-----" not in content:
        raise StartupError(f"The TLS {what} {path} is not in PEM form: it must hold a block with {mark.decode()}.")
    return content
