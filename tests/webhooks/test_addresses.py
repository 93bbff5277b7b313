"""Where a webhook may go: by the table of addresses, and by the lists of hosts."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timerd.core.webhooks.addresses import AddressRules
from timerd.core.webhooks.urls import objection_to

FORBIDDEN = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254"),
    *("169.254.169.254", "168.63.129.16", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1"),
    *("192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.250"),
    *("240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1"),
    *("64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "4000::1", "5f00::1"),
    *("fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1"),
    *("localhost", "127.1", "0x7f000001", "2130706433", "127.0.0.1:80", ""),
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "172.15.255.255", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "2a00:1450::1"]


@pytest.mark.parametrize("address", FORBIDDEN)
def test_what_is_not_public_is_refused(address: str) -> None:
    assert AddressRules().objection(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_public_is_not(address: str) -> None:
    assert AddressRules().objection(address) == ""


def test_a_network_that_was_allowed_is_and_its_neighbours_are_not() -> None:
    rules = AddressRules(["127.0.0.1/32", "10.1.0.0/16", "fd00::/16"])
    assert [rules.objection(each) for each in ("127.0.0.1", "10.1.2.3", "fd00::5")] == [""] * 3
    assert all(rules.objection(each) for each in ("127.0.0.2", "10.2.0.1", "fd01::5", "::ffff:127.0.0.1", "::1"))


@given(st.ip_addresses())
def test_nothing_is_public_that_the_library_calls_otherwise(address: ipaddress.IPv4Address) -> None:
    """The other way round is not true: of what it calls global some leads inside."""
    if AddressRules().objection(str(address)) == "":
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_private


HOSTS = ("hooks.example.com", "*.internal.example", "127.0.0.1", "[::1]")
INSECURE = ("127.0.0.1", "[::1]")
GOOD = [
    "https://hooks.example.com/mails?a=b",
    "https://hooks.example.com:8443/",
    "https://a.internal.example/x",
    "https://a.b.internal.example",
    "http://127.0.0.1:8080/hook",
    "http://[::1]:8080/hook",
    "https://hooks.example.com/a%20b",
]
BAD = [
    ("http://hooks.example.com/mails", "is plain http: write https, or add hooks.example.com to"),
    ("https://other.example.com/mails", "leads to other.example.com, which is not in webhooks.hosts"),
    ("https://internal.example/", "which is not in webhooks.hosts"),
    ("https://evilinternal.example/", "which is not in webhooks.hosts"),
    ("https://hooks.example.com.evil.example/", "which is not in webhooks.hosts"),
    ("https://hooks.example.com@evil.example/", "has a user or a password"),
    ("https://ada:secret@hooks.example.com/", "has a user or a password"),
    ("https://evil.example#@hooks.example.com/", "has a #fragment"),
    ("https://hooks.example.com/#a", "has a #fragment"),
    ("https://evil.example\\@hooks.example.com/", "has characters that an address has not"),
    ("https://hooks.example.com/a b", "has characters that an address has not"),
    ("https://hooks.example.com/\r\nHost: a", "has characters that an address has not"),
    ("https://h\u00f6\u00f6ks.example.com/", "has characters that an address has not"),
    ("https://HOOKS.example.com/", "is no address: write https://HOST/PATH"),
    ("https://hooks.example.com:99999/", "is no address"),
    ("https://hooks.example.com:x/", "is no address"),
    ("https:///mails", "is no address"),
    ("https:mails", "is no address"),
    ("ftp://hooks.example.com/", "is no address"),
    ("file:///etc/passwd", "is no address"),
    ("hooks.example.com/mails", "is no address"),
    ("https://[::1/", "is no address"),
    ("https://[127.0.0.1]/", ""),
    ("http://2130706433/", "which is not in webhooks.hosts"),
    ("", "has characters that an address has not"),
]


@pytest.mark.parametrize("url", GOOD)
def test_a_host_that_was_listed_is_good(url: str) -> None:
    assert objection_to(url, HOSTS, INSECURE) == ""


@pytest.mark.parametrize(("url", "says"), BAD, ids=[str(number) for number in range(len(BAD))])
def test_any_other_is_refused_in_words(url: str, says: str) -> None:
    objection = objection_to(url, HOSTS, INSECURE)
    assert objection
    assert says in objection
    assert "secret" not in objection
