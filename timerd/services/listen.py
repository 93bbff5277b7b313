"""Where the server may listen, decided before anything is opened: off loopback only with TLS, or said aloud."""

from __future__ import annotations

import ipaddress
import ssl
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
    tls = config.tls
    if (tls.certificate_file is None) != (tls.key_file is None):
        raise StartupError("TLS needs two files: give both a certificate and its key, or neither.")
    if not (is_loopback(address.host) or tls.certificate_file or config.insecure):
        raise StartupError(
            f"Refusing to listen on {address} without TLS: everybody who reaches it could read and change all tasks. "
            "Give a TLS certificate and key, listen on 127.0.0.1, or say --insecure if the network itself is trusted."
        )
    return address


def check_http(config: ServerConfig) -> Address | None:
    """Where the HTTP port is, if anywhere; raises StartupError as `check_listen` does."""
    if not config.http.listen:
        return None
    address = parse_listen(config.http.listen)
    is_open = config.insecure or config.http.insecure
    if not (is_loopback(address.host) or config.tls.certificate_file or is_open):
        raise StartupError(
            f"Refusing to listen on {address} for HTTP without TLS: everybody who reaches it could read the metrics. "
            "Give a TLS certificate and key, listen on 127.0.0.1, or set http.insecure if the network is trusted."
        )
    return address


def http_tls(config: ServerConfig) -> ssl.SSLContext | None:
    """As callers see it, unless HTTP was said to be plain."""
    certificate, key = config.tls.certificate_file, config.tls.key_file
    if certificate is None or key is None or config.http.insecure:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise StartupError(
            f"The TLS certificate {certificate} and its key cannot be used for HTTP: {error}."
        ) from error
    return context


def read_tls(config: ServerConfig) -> Tls | None:
    certificate, key = config.tls.certificate_file, config.tls.key_file
    if certificate is None or key is None:
        return None
    return Tls(_pem(certificate, "certificate", b"CERTIFICATE"), _pem(key, "key", b"PRIVATE KEY"))


def _pem(path: Path, what: str, mark: bytes) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StartupError(f"Cannot read the TLS {what} {path}: {error.strerror}.") from error
    if mark + b"-----" not in content:
        raise StartupError(f"The TLS {what} {path} is not in PEM form: it must hold a block with {mark.decode()}.")
    return content
