"""How a gRPC stream ended, from the headers at its end (gRPC over HTTP/2: Responses, HTTP2 Transport Mapping)."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from hpack import Decoder, HPACKError

from timerd.sdk.errors import MetadataKey, TimerdError, Unavailable, code_name, make_error

_OK = 200
# What a proxy says that knows nothing of gRPC; anything else is unknown.
_CODE_OF_HTTP = {
    400: "INTERNAL",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "UNIMPLEMENTED",
    429: "UNAVAILABLE",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "UNAVAILABLE",
}


def error_of_end(blocks: Sequence[bytes], sentence: str) -> TimerdError:
    """`blocks`: all headers that came, in their order; `sentence`: what is said where they say nothing."""
    fields = fields_of(blocks)
    number, status = fields.get("grpc-status", ""), fields.get(":status", "")
    if _is_number(number):
        if int(number) == 0:
            return Unavailable(sentence)
        retry_ms = fields.get(MetadataKey.RETRY_AFTER_MS, "")
        return make_error(
            code_name(int(number)),
            unquote(fields.get("grpc-message", "")),
            fields.get(MetadataKey.REASON, ""),
            int(retry_ms) if _is_number(retry_ms) else 0,
            fields.get(MetadataKey.FIELD, ""),
        )
    if _is_number(status) and int(status) != _OK:
        code = _CODE_OF_HTTP.get(int(status), "UNKNOWN")
        return make_error(code, f"The other side answered with the HTTP status {status}.", "", 0, "")
    return Unavailable(sentence)


def fields_of(blocks: Sequence[bytes]) -> dict[str, str]:
    """None where they cannot be read."""
    decoder, fields = Decoder(), dict[str, str]()
    try:
        for block in blocks:
            # What others wrote into headers of theirs need not be text.
            for name, value, *_ in decoder.decode(block, raw=True):
                fields[bytes(name).decode("ascii", "replace")] = bytes(value).decode("ascii", "replace")
    except HPACKError:
        return {}
    return fields


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
