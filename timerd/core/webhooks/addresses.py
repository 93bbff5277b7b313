"""Which addresses a webhook may connect to: those of the public internet, and networks that were allowed by name.

By a table of ours, after the registries of special-purpose addresses of the IANA. What `ipaddress` calls global
includes multicast, site-local addresses and IPv4 addresses inside of others, each of which may lead inside.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

# The only global unicast block of IPv6 that is given out. Everything else is local, multicast, or has an IPv4 address
# in it (mapped, NAT64).
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "of this host"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "of a carrier's network"),
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "of a cloud's own services"),
    ("169.254.0.0/16", "link-local, where clouds keep their metadata"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "special-purpose"),
    ("192.0.2.0/24", "for documentation"),
    ("192.88.99.0/24", "special-purpose"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "for benchmarks"),
    ("198.51.100.0/24", "for documentation"),
    ("203.0.113.0/24", "for documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
    ("2001::/23", "special-purpose"),
    ("2001:db8::/32", "for documentation"),
    ("2002::/16", "an IPv4 address in another form"),
    ("3fff::/20", "for documentation"),
)
_TABLE = [(ipaddress.ip_network(block), what) for block, what in _SPECIAL]


class AddressRules:
    """`allowed`: networks that may be reached although they are not public."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = [ipaddress.ip_network(text) for text in allowed]

    def objection(self, text: str) -> str:
        """Why there may be no connection to this address, in a few words; empty: there may."""
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return "no address that can be judged"
        if any(address in network for network in self._allowed):
            return ""
        return _special(address)


def _special(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    for network, what in _TABLE:
        if address in network:
            return what
    if isinstance(address, ipaddress.IPv6Address) and address not in _PUBLIC_V6:
        return "outside of the public addresses of IPv6"
    return ""
