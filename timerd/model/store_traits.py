"""What a store can do beyond what every store must: its adapter declares it, the engine goes by it.

A trait that a store has and does not declare costs time. One that it declares and does not have breaks a promise, so
timerd/testing/contracts/traits.py has a test for each.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTraits:
    """Above each trait stands what the store does, and what the engine does by it."""

    # A message that comes again within a day is known by its prefix, and stores nothing: a call is one append. Without
    # it the place of a late call is decided once for all its tries (core/protocol/message_place.py), and a holder
    # remembers how rows ended, because a try may write them once more.
    knows_repeats: bool = False
    # A scan brings what became readable since its cursor, and rows bear the name that their append was given: a sweep
    # asks for everything new. Without it a sweep reads again what is not sure and due in a moment, keys first.
    has_cursors: bool = False
    # Pages come in the order of positions, and say how far they go: a partition fires while it loads the rest.
    pages_in_order: bool = False
    # The store counts the marks that are the first of their kind on their row: a cancel of many rows, all of which are
    # its own, does not read them once more.
    counts_marks: bool = False
    # A commit costs so little that a partition writes every 5 ms what has ended, else every 20 ms. This is a figure:
    # no test of a store proves it.
    commit_is_cheap: bool = False
    # Several processes work on the same data, over a network: an instance is one of a cluster, a bucket has four shards
    # and gets more when it is hot, and a call is given up where the store does not answer.
    is_shared: bool = False
    # The store sees the disk of its data: the server warns when little is free.
    sees_disk: bool = False
