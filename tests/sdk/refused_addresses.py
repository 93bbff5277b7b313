"""Addresses that are refused, and the words."""

from __future__ import annotations

REFUSED = {
    "": "it is empty, write HOST:PORT, for example 127.0.0.1:7400",
    "http://timerd:7400": "leave out 'http://' and write HOST:PORT",
    "https://timerd": "(TLS is turned on by `ca_file`, --tls-ca)",
    "grpc://timerd:7400": "leave out 'grpc://'",
    "timerd:0": "the port is '0', give a number from 1 to 65,535",
    "timerd:65536": "the port is '65536'",
    "timerd:": "the port is ''",
    "timerd:7400/": "the port is '7400/'",
    "timerd:٧٤٠٠": "the port is '٧٤٠٠'",
    "::1": "an IPv6 address stands in brackets, write [::1]:7400",
    "::1:7400": "stands in brackets",
    "dns:///::1": "stands in brackets",
    "[::1]x": "stands in brackets",
    "[timerd]:7400": "'timerd' is no IP address",
    "127.0.0.256:7400": "'127.0.0.256' is no IP address",
    "ipv4:timerd:7400": "'timerd' is no IP address",
    "ipv4:[::1]:7400": "'[::1]' is no address of ipv4",
    ":7400": "the host is missing",
    "7400": "the host is missing",
    "timerd host:7400": "'timerd host' is no name of a host",
    "me@timerd:7400": "'me@timerd' is no name of a host",
    "timerd/v1:7400": "'timerd/v1' is no name of a host",
    "dns://timerd:7400": "'//timerd' is no name of a host",
    "a:7400,b:7400": "several addresses are written ipv4:IP:PORT,IP:PORT",
    "unix:": "the path of the socket is missing",
    "unix://run/timerd.sock": "the path of the socket is missing",
}
