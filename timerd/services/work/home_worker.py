"""What a home knows of one of its workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from timerd.core.taken import QueueKey
from timerd.model.identity import ACK_TOKEN_BYTES
from timerd.services.work.link import Link
from timerd.services.work.work_stream import WorkStream


class Whereabouts(Enum):
    """Where a delivery is that no link leads to. HERE: it is this instance's. ORPHANED: the instance that sent it is
    gone."""

    HERE = 0
    ORPHANED = 1


Where = Link | Whereabouts


@dataclass(slots=True, eq=False)
class HomeWorker:
    """`remote`: the tokens of its deliveries that other instances have sent, and which one. `asked`: so many have not
    said yet which of its orphaned deliveries they know; what it says of these until then waits in `later`."""

    stream: WorkStream
    namespace: str
    lease_ms: int
    name: bytes = b""
    called: str = ""
    queues: set[QueueKey] = field(default_factory=set)
    remote: dict[bytes, Where] = field(default_factory=dict)
    asked: int = 0
    later: list[Callable[[], None]] = field(default_factory=list)

    @property
    def number(self) -> int:
        return self.stream.number

    def orphans(self) -> bytes:
        return b"".join(token for token, where in self.remote.items() if where is Whereabouts.ORPHANED)

    def places(self, tokens: bytes) -> dict[Where, list[int]]:
        """Place -> which of the tokens, as numbers."""
        places: dict[Where, list[int]] = {}
        where_is = self.remote.get
        for row, token in enumerate(each_token(tokens)):
            places.setdefault(where_is(token, Whereabouts.HERE), []).append(row)
        return places


def each_token(tokens: bytes) -> list[bytes]:
    return [tokens[at : at + ACK_TOKEN_BYTES] for at in range(0, len(tokens), ACK_TOKEN_BYTES)]


def pick(tokens: bytes, rows: list[int]) -> bytes:
    """Some of them."""
    size = ACK_TOKEN_BYTES
    return b"".join([tokens[row * size : row * size + size] for row in rows])
