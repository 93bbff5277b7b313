"""Where the server may listen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from timerd.config import AuthConfig, ServerConfig, TlsConfig
from timerd.model.errors import StartupError
from timerd.services.transport.listen import Address, check_listen, parse_listen
from timerd.services.transport.tls import read_tls

# What a copy that broke off leaves.
HALF = "-----BEGIN CERTIFICATE-----\nMIIB"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7400", Address("127.0.0.1", 7400)),
        ("localhost:0", Address("localhost", 0)),
        ("[::1]:7400", Address("::1", 7400)),
        ("timers.example:65535", Address("timers.example", 65535)),
    ],
)
def test_addresses_are_read_and_written(text: str, address: Address) -> None:
    assert parse_listen(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "7400", ":7400", "localhost", "localhost:", "localhost:x", "h:65536", "h:-1", "h:²"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(StartupError, match="write HOST:PORT"):
        parse_listen(text)


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1"])
def test_loopback_needs_nothing(listen: str) -> None:
    assert check_listen(ServerConfig(listen=listen)) == parse_listen(listen)


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "[::]:1", "10.1.2.3:1", "timers.example:1", "localhost.example:1"])
def test_off_loopback_needs_tls_or_a_word(listen: str) -> None:
    with pytest.raises(StartupError, match="without TLS") as refused:
        check_listen(ServerConfig(listen=listen))
    assert "--insecure" in str(refused.value)
    assert check_listen(ServerConfig(listen=listen, insecure=True))
    assert check_listen(
        ServerConfig(listen=listen, tls=TlsConfig(certificate_file=Path("c.pem"), key_file=Path("k.pem")))
    )


@pytest.mark.parametrize("tls", [TlsConfig(certificate_file=Path("c.pem")), TlsConfig(key_file=Path("k.pem"))])
def test_half_of_tls_is_refused(tls: TlsConfig) -> None:
    with pytest.raises(StartupError, match="give both"):
        check_listen(ServerConfig(tls=tls))


def test_tls_files_are_checked(tmp_path: Path) -> None:
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    config = TlsConfig(certificate_file=certificate, key_file=key)
    with pytest.raises(StartupError, match="Cannot read the TLS certificate"):
        read_tls(config)
    certificate.write_text("-----BEGIN CERTIFICATE-----")
    key.write_text("nonsense")
    with pytest.raises(StartupError, match="not in PEM form"):
        read_tls(config)
    key.write_text("-----BEGIN EC PRIVATE KEY-----")
    with pytest.raises(StartupError, match="cannot be used"):
        read_tls(config)
    with pytest.raises(StartupError, match="needs two files"):
        read_tls(TlsConfig())


@pytest.mark.parametrize("setting", ["client_ca_file", "peer_ca_file"])
@pytest.mark.parametrize(
    ("content", "says"), [(None, "Cannot read"), ("nonsense", "not in PEM form"), (HALF, "cannot be used")]
)
def test_authorities_are_checked(tmp_path: Path, setting: str, content: str | None, says: str) -> None:
    pair = Authority(tmp_path).sign("server")
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    authority: dict[str, Any] = {setting: file}
    with pytest.raises(StartupError, match=f"certificate authority of .*{says}|{says}.* certificate authority of"):
        read_tls(replace(TlsConfig(certificate_file=pair.certificate, key_file=pair.key), **authority))


def test_tokens_and_client_certificates_need_tls() -> None:
    for config in (
        ServerConfig(auth=AuthConfig(principals_file=Path("p"))),
        ServerConfig(tls=TlsConfig(client_ca_file=Path("ca.pem"))),
        ServerConfig(tls=TlsConfig(peer_ca_file=Path("ca.pem"))),
    ):
        with pytest.raises(StartupError, match="need TLS"):
            check_listen(config)
