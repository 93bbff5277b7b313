"""Where the server may listen, decided before anything is opened: off loopback only with TLS, or said aloud."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from timerd.config import AuthConfig, ServerConfig
from timerd.model.errors import StartupError


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


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
    check_jwt(config.auth)
    if tls.certificate_file is None and (config.auth.principals_file or tls.client_ca_file or tls.peer_ca_file):
        raise StartupError(
            "auth.principals_file, tls.client_ca_file and tls.peer_ca_file need TLS, for a token would be readable on "
            "its way and there would be no certificates: give a TLS certificate and key."
        )
    return address


def check_jwt(auth: AuthConfig) -> None:
    """Raises StartupError where tokens of an identity provider could not be judged."""
    given = auth.jwt.issuer, auth.jwt.audience, auth.jwt.keys
    if not any(given):
        return
    if not all(given) or auth.principals_file is None:
        raise StartupError(
            "Signed tokens need auth.jwt.issuer, auth.jwt.audience, auth.jwt.keys (a file with a JWK set, or its https "
            "address), and auth.principals_file, which says which claims give which roles: set all four."
        )
    if auth.jwt.keys.startswith("http://"):
        raise StartupError(
            f"auth.jwt.keys is {auth.jwt.keys}: keys that come by plain HTTP could be anybody's. Use https, or a file."
        )


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


def is_plain_http(config: ServerConfig) -> bool:
    """Whether the HTTP port speaks without TLS: on loopback nobody listens in, so that probes and curl need no
    authority there. It does speak TLS where callers have to show a certificate."""
    if config.http.insecure or config.tls.certificate_file is None:
        return True
    return config.tls.client_ca_file is None and is_loopback(parse_listen(config.http.listen).host)
