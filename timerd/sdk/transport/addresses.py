"""Addresses of servers as users write them, looked at when a client or worker is made.

gRPC takes nearly any text, and tries a wrong one until the time-out, or asks another port (443) than was meant.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

from timerd.sdk.values import invalid, text

DEFAULT_PORT = 7400
DEFAULT_TARGET = f"127.0.0.1:{DEFAULT_PORT}"
_MOST_PORT = 65_535
_FORM = f"write HOST:PORT, for example {DEFAULT_TARGET}"
_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")
_IN_BRACKETS = re.compile(r"(\[[^\[\]]*\])(?::(.*))?")
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_.])?")


def server_address(target: object, field: str = "target") -> str:
    """HOST:PORT, or what gRPC has beside it: dns:///HOST:PORT, ipv4: and ipv6: with several, unix:, vsock:, xds:.

    A port that is left out is 7400. Raises InvalidTask: `field` is what the sentence calls the address.
    """
    given = text(target, field).strip()
    try:
        return _address(given)
    except ValueError as wrong:
        raise invalid(f"`{field}` is {given!r:.200}: {wrong}.", field) from None


def host_and_port(address: str) -> tuple[str, int] | None:
    """Of what `server_address` has returned. None where only gRPC can resolve it."""
    plain = re.sub(r"^dns:(?:///)?", "", address)
    if _scheme_of(plain) or "/" in plain:
        return None
    host, _, port = plain.rpartition(":")
    return host.strip("[]"), int(port)


def authority_of(address: str) -> str:
    """What a call by `server_address` is told to be for, where gRPC would say all of several addresses: the first one.

    The list is no authority of HTTP (RFC 9110, section 4.2.1), and a proxy may refuse it. Empty: as gRPC has it.
    """
    scheme, _, listed = address.partition(":")
    first, comma, _ = listed.partition(",")
    return first if comma and _SCHEMES.get(scheme) is _addresses else ""


def _address(given: str) -> str:
    if not given:
        raise ValueError(f"it is empty, {_FORM}")
    url = _URL.match(given)
    scheme = _scheme_of(given)
    if url and not scheme:
        tls = " (TLS is turned on by `ca_file`, --tls-ca)" if url[1].lower().endswith("s") else ""
        raise ValueError(f"leave out {url[0]!r} and {_FORM}{tls}")
    return _SCHEMES[scheme](given) if scheme else _host_port(given)


def _scheme_of(given: str) -> str:
    scheme = given.partition(":")[0]
    return scheme if scheme in _SCHEMES and ":" in given else ""


def _host_port(given: str) -> str:
    if "," in given:
        raise ValueError("several addresses are written ipv4:IP:PORT,IP:PORT, or have one name in the DNS")
    bracketed = _IN_BRACKETS.fullmatch(given)
    if bracketed:
        host, port = bracketed[1], bracketed[2]
        _check_ip(ipaddress.IPv6Address, host[1:-1])
    elif given.count(":") > 1:
        raise ValueError(f"an IPv6 address stands in brackets, write [::1]:{DEFAULT_PORT}")
    else:
        host, colon, after = given.partition(":")
        port = after if colon else None
        _check_host(host)
    return f"{host}:{DEFAULT_PORT if port is None else _port(port)}"


def _check_host(host: str) -> None:
    if not host or host.isdigit():
        raise ValueError(f"the host is missing, {_FORM}")
    if not _HOST.fullmatch(host):
        raise ValueError(f"{host!r} is no name of a host, {_FORM}")
    if re.fullmatch(r"[0-9.]+", host):
        _check_ip(ipaddress.IPv4Address, host)


def _check_ip(kind: Callable[[str], object], host: str) -> None:
    try:
        kind(host)
    except ValueError as wrong:
        raise ValueError(f"{host!r} is no IP address ({wrong})") from None


def _port(port: str) -> int:
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= _MOST_PORT):
        raise ValueError(f"the port is {port!r}, give a number from 1 to {_MOST_PORT:,}")
    return int(port)


def _dns(given: str) -> str:
    """dns:[//server/]host[:port]"""
    found = re.fullmatch(r"(dns:(?://[^/]*/)?)(.*)", given)
    assert found is not None
    return found[1] + _host_port(found[2])


def _addresses(given: str) -> str:
    """ipv4:ADDRESS[:port][,...], ipv6: likewise."""
    scheme, _, listed = given.partition(":")
    whole = [_host_port(each) for each in listed.split(",")]
    for each in whole:
        host = each.rpartition(":")[0]
        if (host[0] == "[") != (scheme == "ipv6"):
            raise ValueError(f"{host!r} is no address of {scheme}")
        _check_ip(ipaddress.ip_address, host.strip("[]"))
    return f"{scheme}:" + ",".join(whole)


def _path(given: str) -> str:
    """A socket's: gRPC knows the rest. After // it is absolute."""
    _, _, path = given.partition(":")
    if not path.removeprefix("//") or (path.startswith("//") and not path.startswith("///")):
        raise ValueError("the path of the socket is missing, write unix:/run/timerd.sock")
    return given


_SCHEMES: dict[str, Callable[[str], str]] = {
    "dns": _dns,
    "ipv4": _addresses,
    "ipv6": _addresses,
    "unix": _path,
    "unix-abstract": _path,
    "vsock": _path,
    "xds": _path,
}
