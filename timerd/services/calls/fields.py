"""Checks of the plain fields of requests: names, keys, counts.

Each mistake is answered with one sentence that says what was wrong, what is allowed and what to do, and with the path
of the field. Nothing has been written when any of these raises.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from functools import lru_cache

from timerd.model.errors import Invalid
from timerd.model.identity import DEFAULT_NAMESPACE

MAX_REQUEST_ID_CHARS = 128
MAX_KEY_CHARS = 256
_NAMESPACE = re.compile(r"[A-Za-z0-9._-]{1,64}")
_QUEUE = re.compile(r"[A-Za-z0-9._\-/:]{1,128}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SHOWN_CHARS = 60


def quoted(text: str) -> str:
    """As shown in sentences: whole where short, so that an answer never grows with the request."""
    return repr(text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "...")


@lru_cache(maxsize=1024)
def namespace_of(text: str) -> str:
    if not text:
        return DEFAULT_NAMESPACE
    if _NAMESPACE.fullmatch(text):
        return text
    raise Invalid(
        f"The namespace {quoted(text)} is not allowed: use 1 to 64 characters of A-Z a-z 0-9 . _ - "
        f"(or leave it empty for {DEFAULT_NAMESPACE!r}).",
        "namespace",
    )


def queue_of(text: str, field: str) -> str:
    if _QUEUE.fullmatch(text):
        return text
    if not text:
        raise Invalid(
            "The queue is missing: name one with 1 to 128 characters of A-Z a-z 0-9 . _ - / : so that a worker can "
            "ask for the task.",
            field,
        )
    raise Invalid(
        f"The queue {quoted(text)} is not allowed: use 1 to 128 characters of A-Z a-z 0-9 . _ - / :",
        field,
    )


def plain_text(text: str, limit_chars: int, name: str, field: str) -> str:
    """Text that goes into registers, logs and metadata: bounded, without control characters."""
    if len(text) > limit_chars:
        raise Invalid(f"The {name} has {len(text)} characters: at most {limit_chars} are allowed, shorten it.", field)
    if _CONTROL.search(text):
        raise Invalid(f"The {name} {quoted(text)} holds control characters: remove them.", field)
    return text


def all_plain(texts: Sequence[str], limit_chars: int) -> bool:
    """Whether `plain_text` raises of none of them."""
    return max(map(len, texts), default=0) <= limit_chars and _CONTROL.search("".join(texts)) is None


def request_id_of(text: str) -> str:
    """Made here where the caller gave none: then a repeat is another request."""
    return plain_text(text, MAX_REQUEST_ID_CHARS, "request_id", "request_id") if text else secrets.token_hex(16)


def key_of(text: str, field: str) -> str:
    return plain_text(text, MAX_KEY_CHARS, "key", field) if text else ""


def at_most(asked: int, default: int, most: int) -> int:
    """A page size or scan limit: 0 = the default; more than the most is lowered to it, as callers of pages expect."""
    return min(asked or default, most)


def limit_count(count: int, most: int, what: str, field: str) -> None:
    if not count:
        raise Invalid(f"The message holds no {what}: send 1 to {most:,} of them.", field)
    if count > most:
        raise Invalid(
            f"The message holds {count:,} {what}: at most {most:,} are allowed, split it into several messages.", field
        )
