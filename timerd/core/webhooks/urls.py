"""Which URLs a target may have: hosts that were listed, by https unless the host was listed for less."""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

# What a browser or a library might read in two ways has no place in a target.
_PLAIN = re.compile(r"[!-~]+")
_HOST = re.compile(r"[a-z0-9._-]+|\[[0-9a-f:.]+\]")


def objection_to(url: str, hosts: Collection[str], insecure_hosts: Collection[str]) -> str:
    """What is wrong with the URL of a target, in words that follow its name; empty: nothing. It is not repeated, since
    its path or query may be a secret."""
    if not _PLAIN.fullmatch(url) or "\\" in url:
        return "has characters that an address has not: write it in ASCII, others as %XX"
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it is read where it is asked for
    except ValueError as error:
        return f"is no address: {error}"
    host = _host_of(parts.netloc)
    if parts.scheme not in ("https", "http") or not host:
        return "is no address: write https://HOST/PATH, in lower case up to the path"
    if "@" in parts.netloc:
        return "has a user or a password in it: they do not belong there, requests are signed"
    if parts.fragment:
        return "has a #fragment, which is not sent: leave it out"
    if not is_listed(host, hosts):
        return f"leads to {host}, which is not in webhooks.hosts: add it there if tasks may go to it"
    if parts.scheme == "http" and not is_listed(host, insecure_hosts):
        return f"is plain http: write https, or add {host} to webhooks.insecure_hosts if the way to it is trusted"
    return ""


def is_listed(host: str, listed: Collection[str]) -> bool:
    """By its name, or as `*.example.com` for the names below it."""
    return host in listed or any(each.startswith("*.") and host.endswith(each[1:]) for each in listed)


def _host_of(netloc: str) -> str:
    """As it is listed: an IPv6 address has its brackets."""
    host = re.sub(r":\d*$", "", netloc.rpartition("@")[2])
    return host if _HOST.fullmatch(host) else ""
