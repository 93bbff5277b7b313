"""Page tokens: opaque to callers, and of use only with the query that they came from."""

from __future__ import annotations

import base64
import binascii
import struct
from hashlib import blake2b
from typing import Protocol

from timerd.model.errors import Invalid
from timerd.model.identity import DIGEST_BYTES
from timerd.services.engine.verbs import Cursor

_QUERY_BYTES = 8
_CURSOR = struct.Struct(f">q{DIGEST_BYTES}s")
# What may differ between the pages of one query: each page of a purge is a request of its own.
_PAGING = ("page_token", "page_size", "max_scanned", "request_id")


class PagedRequest(Protocol):
    """A request message with a `page_token`."""

    @property
    def page_token(self) -> str: ...

    def SerializeToString(self, *, deterministic: bool = ...) -> bytes: ...


def query_hash(request: PagedRequest) -> bytes:
    kind = type(request)
    plain = kind()
    plain.CopyFrom(request)  # type: ignore[attr-defined]
    for name in _PAGING:
        if name in kind.DESCRIPTOR.fields_by_name:  # type: ignore[attr-defined]
            plain.ClearField(name)  # type: ignore[attr-defined]
    content = kind.__name__.encode() + b"\0" + plain.SerializeToString(deterministic=True)
    return blake2b(content, digest_size=_QUERY_BYTES).digest()


def page_token(request: PagedRequest, after: bytes) -> str:
    return base64.urlsafe_b64encode(query_hash(request) + after).rstrip(b"=").decode()


def after_of(request: PagedRequest, size_bytes: int) -> bytes | None:
    """Where the page before ended; None = this is the first page."""
    text = request.page_token
    if not text:
        return None
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != _QUERY_BYTES + size_bytes:
        raise Invalid(
            "The page_token is malformed: send next_page_token of the page before exactly as it came, or none to begin "
            "anew.",
            "page_token",
            "BAD_PAGE_TOKEN",
        )
    if raw[:_QUERY_BYTES] != query_hash(request):
        raise Invalid(
            "The page_token belongs to another query: keep namespace, filter and all other fields as they were on the "
            "first page, or send no page_token to begin anew.",
            "page_token",
            "BAD_PAGE_TOKEN",
        )
    return raw[_QUERY_BYTES:]


def cursor_token(request: PagedRequest, cursor: Cursor | None) -> str:
    """Empty = there are no more pages."""
    return page_token(request, _CURSOR.pack(*cursor)) if cursor is not None else ""


def cursor_of(request: PagedRequest) -> Cursor | None:
    after = after_of(request, _CURSOR.size)
    return Cursor(*_CURSOR.unpack(after)) if after is not None else None
