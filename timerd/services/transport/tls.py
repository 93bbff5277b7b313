"""Certificates and keys from files, for callers and between instances. A file that changes is taken up by the next
connection, so that certificates are renewed without a restart; one that is spoilt leaves the old ones in force."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any, NamedTuple

import grpc

from timerd.config import TlsConfig
from timerd.model.errors import StartupError
from timerd.services.transport.watched_files import Stamp, read_watched, stamp_of_files

log = logging.getLogger(__name__)
# Of files: when changed, how large, which.


class Tls(NamedTuple):
    """All in PEM. `client_ca`: callers must show a certificate that it signed."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None = None


class TlsFiles:
    """The files of one server. `current` is what was read last; `fresh` looks whether they changed since."""

    def __init__(self, config: TlsConfig) -> None:
        self._config = config
        # How often new ones were taken up.
        self.renewals = 0
        self._seen = stamp_of(config)
        self.current = read_tls(config)

    def fresh(self) -> Tls | None:
        """The new ones if the files changed and are good. Any thread may ask."""
        stamp = stamp_of(self._config)
        # None: between the old file and the new one.
        if stamp is None or stamp == self._seen:
            return None
        self._seen = stamp
        try:
            self.current = read_tls(self._config)
        except StartupError as error:
            log.error("The TLS files changed and are not taken up; the old ones stay in force. %s", error)
            return None
        self.renewals += 1
        log.info("The TLS certificate was taken up anew from %s", self._config.certificate_file)
        return self.current


def stamp_of(config: TlsConfig) -> Stamp:
    paths = (config.certificate_file, config.key_file, config.client_ca_file, config.peer_ca_file)
    return stamp_of_files(path for path in paths if path is not None)


def server_credentials(files: TlsFiles) -> grpc.ServerCredentials:
    """gRPC asks for them at each handshake."""

    def fetch() -> Any:  # noqa: ANN401 - None for "as before", which the stubs do not know
        fresh = files.fresh()
        return None if fresh is None else _configuration(fresh)

    needs_client = files.current.client_ca is not None
    return grpc.dynamic_ssl_server_credentials(
        _configuration(files.current), fetch, require_client_authentication=needs_client
    )


def http_context(files: TlsFiles, config: TlsConfig) -> ssl.SSLContext:
    """For the HTTP port. Who watches needs no certificate; one that is shown must be good. A handshake that finds new
    files goes on with them."""
    inner = outer = _http_context(config)
    seen = 0

    def on_hello(connection: ssl.SSLObject, *_: object) -> None:
        nonlocal inner, seen
        files.fresh()
        if files.renewals != seen:
            inner, seen = _http_context(config), files.renewals
        connection.context = inner

    outer.sni_callback = on_hello
    return outer


def _http_context(config: TlsConfig) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(config.certificate_file or "", config.key_file)
    if config.client_ca_file is not None:
        context.load_verify_locations(config.client_ca_file)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def peer_credentials(config: TlsConfig) -> grpc.ChannelCredentials | None:
    """With which one instance calls another: it shows the certificate that callers see. None: without TLS."""
    if config.certificate_file is None:
        return None
    tls = read_tls(config)
    trusted = config.peer_ca_file or config.client_ca_file
    roots = _pem(trusted, "certificate authority", b"CERTIFICATE") if trusted is not None else tls.certificate
    return grpc.ssl_channel_credentials(roots, tls.key, tls.certificate)


def read_tls(config: TlsConfig) -> Tls:
    """Raises StartupError with a sentence."""
    if config.certificate_file is None or config.key_file is None:
        raise StartupError("TLS needs two files: give both a certificate and its key, or neither.")
    certificate = _pem(config.certificate_file, "certificate", b"CERTIFICATE")
    key = _pem(config.key_file, "key", b"PRIVATE KEY")
    client_ca = _authority(config.client_ca_file, "clients")
    _authority(config.peer_ca_file, "instances")
    _check_pair(config.certificate_file, config.key_file)
    return Tls(certificate, key, client_ca)


def _authority(path: Path | None, whose: str) -> bytes | None:
    if path is None:
        return None
    content = _pem(path, f"certificate authority of {whose}", b"CERTIFICATE")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except (OSError, ssl.SSLError) as error:
        raise StartupError(f"The certificate authority of {whose} in {path} cannot be used ({error}).") from error
    return content


def _check_pair(certificate: Path, key: Path) -> None:
    try:
        # A key with a password would ask for it on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")
    except (OSError, ssl.SSLError) as error:
        raise StartupError(
            f"The TLS certificate {certificate} and the key {key} cannot be used ({error}): check that they belong "
            "together and that the key has no password."
        ) from error


def _configuration(tls: Tls) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(tls.key, tls.certificate)], tls.client_ca)


def _pem(path: Path, what: str, mark: bytes) -> bytes:
    content = read_watched(path, f"TLS {what}")
    if mark + b"-----" not in content:
        raise StartupError(f"The TLS {what} {path} is not in PEM form: it must hold a block with {mark.decode()}.")
    return content
