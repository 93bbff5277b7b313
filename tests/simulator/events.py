"""What can be seen from outside: calls, replies, deliveries, and that the server was killed, stopped or started.

A task is called by its name, which is its payload; nothing here knows where it lives.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum


class Verb(StrEnum):
    SCHEDULE = "schedule"
    CANCEL = "cancel"
    MOVE = "move"
    REDRIVE = "redrive"
    GET = "get"


class Said(StrEnum):
    OK = "ok"
    NOT_DONE = "not done"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a schedule asks for one task. `expire_after_ms`: it expires so long after its instant, and `expire_at_ms` is
    when that is at the instant that it was scheduled for; 0: wherever it is, it expires then."""

    fire_at_ms: int
    queue: str
    priority: int = 0
    max_attempts: int = 20
    expire_at_ms: int = 0
    key: str = ""
    policy: str = ""
    expire_after_ms: int = 0
    # Not shown: ids go by what is, and with them every history.
    on_demand: bool = field(default=False, repr=False)

    def expiry_ms(self, fire_at_ms: int) -> int:
        """0: never."""
        return fire_at_ms + self.expire_after_ms if self.expire_after_ms else self.expire_at_ms


@dataclass(frozen=True, slots=True)
class Called:
    """`wanted` of a schedule, `fire_at_ms` of a move."""

    at_ms: float
    call: int
    verb: Verb
    request: str
    names: tuple[str, ...]
    fire_at_ms: int = 0
    wanted: tuple[Wanted, ...] = ()
    # When it was made first; 0: the caller does not say so.
    asked_ms: int = 0
    # Of a cancel, in the place of names.
    key: str = ""


@dataclass(frozen=True, slots=True)
class Replied:
    """`answers`: one a name where OK; else the reason. `ids`: of the tasks that were stored; of a call by key the name
    of the task that it was about."""

    at_ms: float
    call: int
    said: Said
    answers: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Delivered:
    at_ms: float
    worker: str
    name: str
    delivery_id: bytes = field(repr=False)
    attempt: int
    fire_at_ms: int
    scope: str
    token: int
    lease_ms: int
    # When it left the instance that sent it; 0: as it came.
    sent_ms: float = 0.0
    # Of an ordering key.
    fence: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """A worker has said what became of a delivery."""

    at_ms: float
    worker: str
    sequence: int
    action: str
    name: str
    delivery_id: bytes = field(repr=False)
    attempt: int


@dataclass(frozen=True, slots=True)
class Confirmed:
    """`again`: it could not be stored, and the worker will say it again."""

    at_ms: float
    worker: str
    sequence: int
    refused: bool
    again: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """The worker says that it has these in hand (`resumed`: after its stream broke), and was not told otherwise."""

    at_ms: float
    worker: str
    delivery_ids: tuple[bytes, ...] = field(repr=False)
    lease_ms: int
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker was told that these are no longer its own."""

    at_ms: float
    worker: str
    delivery_ids: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Broke:
    """The stream of a worker of these queues is over. `going_away`: the server had said so. `hung_up`: it was not the
    server who ended it."""

    at_ms: float
    worker: str
    going_away: bool
    queues: tuple[str, ...]
    lease_ms: int
    hung_up: bool = False


@dataclass(frozen=True, slots=True)
class Server:
    """Of its operator: started, killed, stopping, stopped; in a cluster also what becomes of its connections. `name`:
    which instance, of several."""

    at_ms: float
    what: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Overdrawn:
    """A worker got a delivery that it had given no credit for."""

    at_ms: float
    worker: str
    name: str


@dataclass(frozen=True, slots=True)
class Fenced:
    """The store has taken in a greater token for a partition: who sends by a lower one is stale."""

    at_ms: float
    scope: str
    token: int
    holder: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A holder has heard that its mark was not taken in."""

    at_ms: float
    scope: str
    token: int


@dataclass(frozen=True, slots=True)
class EndTold:
    """A delivery says how the task `of` has ended, in the life of this delivery id. `name`: of the task that tells."""

    at_ms: float
    name: str
    of: str
    ended: str
    outcome: str
    fire_at_ms: int


OfTasks = Called | Replied | Delivered | Settled | Confirmed | Held | Lost | EndTold
Event = OfTasks | Broke | Server | Overdrawn | Fenced | Refused


def shown(event: Event, start_ms: int) -> str:
    """One line of a trace."""
    parts = []
    for each in fields(event):
        value = getattr(event, each.name)
        if each.name in ("at_ms", "ids") or value in ((), "", False):
            continue
        if (each.name.endswith("_at_ms") or each.name in ("sent_ms", "asked_ms")) and value:
            value = f"{value - start_ms:+}"
        parts.append(f"{each.name}={_plain(value, start_ms)}")
    return f"{event.at_ms - start_ms:>12.3f}  {type(event).__name__:<9} {' '.join(parts)}"


def _plain(value: object, start_ms: int) -> str:
    if isinstance(value, bytes):
        return value[-8:].hex()
    if isinstance(value, tuple):
        return "[" + ", ".join(_plain(v, start_ms) for v in value) + "]"
    if isinstance(value, Wanted):
        due = f"{value.queue}@{value.fire_at_ms - start_ms:+}"
        notes = [f"p{value.priority}"] if value.priority else []
        notes += [f"key={value.key}/{value.policy}"] if value.key else []
        notes += [f"max={value.max_attempts}"] if value.max_attempts != 20 else []
        notes += [f"expires={value.expire_at_ms - start_ms:+}"] if value.expire_at_ms else []
        return " ".join([due, *notes])
    return str(value)
