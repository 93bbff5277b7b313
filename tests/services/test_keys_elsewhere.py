"""What other instances say of the ordering keys that they keep: whoever is silent is named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from timerd.core.taken import QueueKey
from timerd.model.errors import Unavailable
from timerd.model.identity import DEFAULT_NAMESPACE
from timerd.services.peers.peers import Peers
from timerd.services.regulation.key_calls import merged
from timerd.services.regulation.keys_elsewhere import KeysElsewhere
from timerd.v1 import regulation_service_pb2 as wire

NOBODY = "127.0.0.1:1"


async def test_who_does_not_answer_may_keep_keys() -> None:
    membership: Any = SimpleNamespace(name="a", present=lambda: ("b",), address_of=lambda _: NOBODY)
    peers = Peers("token")
    try:
        elsewhere = KeysElsewhere(peers, membership, cast(Any, None), lambda _: "b")
        with pytest.raises(Unavailable, match="b did not answer, and may keep ordering keys of the queue 'docs'"):
            await elsewhere.kept(QueueKey(DEFAULT_NAMESPACE, "docs"), 10)
    finally:
        await peers.close()


def test_what_all_say_is_listed_as_one_instance_does() -> None:
    def reply(*keys: wire.OrderingKey) -> wire.ListKeysResponse:
        return wire.ListKeysResponse(keys=keys, halted=sum(key.halted for key in keys))

    old, new = wire.OrderingKey(key="old", halted=True), wire.OrderingKey(key="new", halted=True, waiting=9)
    old.since.FromMilliseconds(1_000)
    new.since.FromMilliseconds(2_000)
    one = reply(new, wire.OrderingKey(key="few", waiting=1))
    other = reply(old, wire.OrderingKey(key="many", waiting=50))
    found = merged([one, other], 3)
    assert [key.key for key in found.keys] == ["old", "new", "many"]
    assert found.halted == 2
