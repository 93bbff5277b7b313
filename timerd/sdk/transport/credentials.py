"""What a client shows of itself: TLS files, and a token that travels with each call, over TLS only."""

from __future__ import annotations

from pathlib import Path

import grpc

from timerd.sdk.values import InvalidTask


class Token(grpc.AuthMetadataPlugin):
    """Read from its file for each call, so that a token that is renewed is used without a new connection."""

    def __init__(self, token: str, file: str | Path | None) -> None:
        self._token = token
        self._file = file

    def __call__(self, context: grpc.AuthMetadataContext, callback: grpc.AuthMetadataPluginCallback) -> None:
        try:
            token = current_token(self._token, self._file)
        except OSError as error:
            callback((), error)
        else:
            callback((("authorization", f"Bearer {token}"),), None)


def current_token(token: str, file: str | Path | None) -> str:
    return Path(file).read_text(encoding="utf-8").strip() if file is not None else token


def channel_credentials(
    ca_file: str | Path | None, cert_file: str | Path | None, key_file: str | Path | None
) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(_read(ca_file), _read(key_file), _read(cert_file))


def with_token(
    credentials: grpc.ChannelCredentials, token: str, token_file: str | Path | None
) -> grpc.ChannelCredentials:
    if not (token or token_file):
        return credentials
    plugin = Token(token, token_file)
    return grpc.composite_channel_credentials(credentials, grpc.metadata_call_credentials(plugin, "timerd-token"))


def check_pair(cert_file: str | Path | None, key_file: str | Path | None) -> None:
    """Raises InvalidTask."""
    if (cert_file is None) != (key_file is None):
        raise InvalidTask("A client certificate needs both `cert_file` and `key_file`.", field="cert_file")


def check_token(token: str, token_file: str | Path | None, has_tls: bool) -> None:
    """Raises InvalidTask."""
    if token and token_file:
        raise InvalidTask("Both `token` and `token_file` are given: name the token in one way.", field="token")
    if (token or token_file) and not has_tls:
        raise InvalidTask("A token is sent over TLS only: give `ca_file`, or `tls=True`.", field="token")
    if token and not token.isascii():
        raise InvalidTask("A token has ASCII letters only.", field="token")


def _read(path: str | Path | None) -> bytes | None:
    return Path(path).read_bytes() if path is not None else None
