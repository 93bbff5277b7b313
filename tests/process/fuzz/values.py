"""Messages from the descriptors alone: mostly plausible, with wild values in between, or bytes that are no message.

A message that is wild throughout is refused at its first field and tests nothing else; so each has a wildness of its
own, the chance that one of its fields is wild. What replies taught (ids, page tokens, ack tokens) comes back later.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

WILDNESS = (0.0, 0.0, 0.0, 0.03, 0.15, 0.5, 1.0)
NAMESPACES = ("fuzz", "fuzz", "fuzz", "fuzz", "fuzz", "fuzz", "", "other")
QUEUES = ("fuzz", "fuzz/2", "fuzz:3")
KEPT_VALUES = 500
MANY_ITEMS = 10_001
# The descriptor of a message: protobuf has two builds of it, of different types.
Kind: TypeAlias = Any
_INTS = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}
_FLOATS = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e308, -1e308, float("inf"), float("-inf"), float("nan"))
_TEXTS = (
    "", " ", "a b", "ü", "\x00", "a\nb", "'; DROP TABLE groups; --", "%s{0}", "../..", "\U0010ffff", "x" * 129,
    "x" * 257, "x" * 70_000, "-", "_", "AAAA", "A" * 43, "A" * 59, "A" * 80,
)  # fmt: skip
_LENGTHS = (0, 1, 7, 8, 19, 20, 43, 44, 63, 64, 65, 128, 4_096, 65_536, 65_537, 300_000)


class Learned:
    """What replies taught; the newest of each kind."""

    def __init__(self) -> None:
        self.task_ids: deque[str] = deque(maxlen=KEPT_VALUES)
        self.page_tokens: deque[str] = deque(maxlen=KEPT_VALUES)
        self.ack_tokens: deque[bytes] = deque(maxlen=KEPT_VALUES)


class Generator:
    """Reproducible as far as replies are: the same seed and the same replies make the same messages."""

    def __init__(self, random: Random, learned: Learned) -> None:
        self.random = random
        self._learned = learned
        self._wildness = 0.0

    def raw(self, kind: Kind) -> bytes:
        """One message as it goes over the wire."""
        if self.random.random() < 0.1:
            return self.garbage(kind)
        return self.message(kind).SerializeToString()

    def message(self, kind: Kind, wildness: float | None = None) -> Message:
        self._wildness = self.random.choice(WILDNESS) if wildness is None else wildness
        return self._message(kind, 0)

    def garbage(self, kind: Kind) -> bytes:
        """Random bytes, or a message that something happened to."""
        random = self.random
        if random.random() < 0.4:
            deep = b"\x0b" * 500, b"\xff" * 30, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\xff\xff", b""
            return random.choice((*deep, random.randbytes(random.choice((1, 5, 50, 5_000)))))
        whole = bytearray(self.message(kind).SerializeToString())
        at = random.randrange(len(whole) + 1)
        match random.randrange(4):
            case 0 if whole:
                whole[at % len(whole)] ^= 1 << random.randrange(8)
            case 1:
                del whole[at:]
            case 2:
                whole[at:at] = random.randbytes(random.randrange(1, 9))
            case _:
                whole *= 2
        return bytes(whole)

    # -- messages -------------------------------------------------------------------------------------------------

    def _is_wild(self) -> bool:
        return self.random.random() < self._wildness

    def _message(self, kind: Kind, depth: int) -> Message:
        made: Any = GetMessageClass(kind)()
        skipped = {f.name for one in kind.oneofs for f in one.fields} - {
            self.random.choice(one.fields).name for one in kind.oneofs
        }
        for field in kind.fields:
            if field.name not in skipped and depth < 6 and self.random.random() < self._share(field):
                self._fill(made, field, depth)
        repair = {
            "TaskColumns": self._fit_lengths,
            "TaskFilter": self._put_in_order,
            "RedriveRequest": self._choose,
        }.get(kind.name)
        if repair is not None and not self._is_wild():
            repair(made)
        return made  # type: ignore[no-any-return]

    def _share(self, field: FieldDescriptor) -> float:
        """Whether it is filled at all."""
        if field.name in ("ordering_key", "traceparent", "labels", "retry", "max_scanned", "states", "expire_time"):
            return 0.02 + self._wildness / 2
        if field.name in ("on_conflict", "key", "soft_expire_time", "page_token", "resume"):
            return 0.2
        needed = ("namespace", "template", "queue", "payload", "task_id", "filter", "open", "tasks", "credits")
        return 0.95 if field.name in needed or field.containing_oneof else 0.8

    def _fill(self, made: Any, field: FieldDescriptor, depth: int) -> None:  # noqa: ANN401
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for _ in range(self._count()):
                getattr(made, field.name)[str(self._text(""))] = str(self._text(""))
        elif field.is_repeated:
            getattr(made, field.name).extend(self._value(field, depth) for _ in range(self._count()))
        elif field.message_type is not None:
            getattr(made, field.name).CopyFrom(self._value(field, depth))
        else:
            setattr(made, field.name, self._value(field, depth))

    def _count(self) -> int:
        return self.random.choice((0, 1, 2, 300)) if self._is_wild() else self.random.randrange(1, 6)

    def _value(self, field: FieldDescriptor, depth: int) -> Any:  # noqa: ANN401
        if field.message_type is not None:
            well_known = {"google.protobuf.Timestamp": self._stamp, "google.protobuf.Duration": self._duration}
            special = well_known.get(field.message_type.full_name)
            if special is not None:
                return special(GetMessageClass(field.message_type)(), field.name)
            return self._message(field.message_type, depth + 1)
        if field.enum_type is not None:
            return self.random.choice((-1, 99, 1 << 30)) if self._is_wild() else self._enum(field.enum_type)
        by_type: dict[int, Callable[[str], Any]] = {
            FieldDescriptor.CPPTYPE_STRING: self._text if field.type == FieldDescriptor.TYPE_STRING else self._bytes,
            FieldDescriptor.CPPTYPE_BOOL: lambda _: self.random.random() < 0.5,
            FieldDescriptor.CPPTYPE_DOUBLE: lambda _: self.random.choice(_FLOATS) if self._is_wild() else 1.5,
        }
        make = by_type.get(field.cpp_type)
        return make(field.name) if make else self._int(field)

    def _enum(self, kind: EnumDescriptor) -> int:
        return int(self.random.choice(kind.values).number)

    # -- values ---------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return round(time.time() * 1000)

    def _moment_ms(self, name: str) -> int:
        return self.now_ms() if name == "request_time" else self._near_ms()

    def _near_ms(self) -> int:
        """A past, a moment, a minute or an hour from now."""
        return self.now_ms() + self.random.choice((-3_600_000, -1, 0, 200, 2_000, 60_000, 3_600_000, 86_400_000 * 40))

    def _stamp(self, made: Any, name: str) -> Any:  # noqa: ANN401
        made.FromMilliseconds(self._moment_ms(name))
        return self._bent_time(made) if self._is_wild() else made

    def _duration(self, made: Any, _name: str) -> Any:  # noqa: ANN401
        made.FromMilliseconds(self.random.choice((1, 500, 5_000, 60_000, 3_600_000)))
        return self._bent_time(made) if self._is_wild() else made

    def _bent_time(self, made: Any) -> Any:  # noqa: ANN401
        if self.random.random() < 0.7:
            made.seconds = self._boundary(-(1 << 63), (1 << 63) - 1)
        if self.random.random() < 0.5:
            made.nanos = self._boundary(-(1 << 31), (1 << 31) - 1)
        return made

    def _boundary(self, least: int, most: int) -> int:
        around = (0, 1, -1, least, most, least + 1, most - 1, most // 2, 999_999_999, 1_000_000_000, 253_402_300_799)
        return max(least, min(most, self.random.choice(around)))

    def _int(self, field: FieldDescriptor) -> int:
        least, most = _INTS[field.cpp_type]
        if self._is_wild():
            return self._boundary(least, most)
        if field.name == "fire_at_ms":
            return self._near_ms()
        if field.name in ("lease_ms", "delay_ms"):
            return self.random.choice((1_000, 1_500, 5_000))
        return self.random.choice((1, 2, 3, 5, 9, 100)) if field.name != "priority" else self.random.randrange(11)

    def _text(self, name: str) -> str:
        random = self.random
        if self._is_wild():
            return random.choice(_TEXTS)
        known = {"task_id": self._learned.task_ids, "task_ids": self._learned.task_ids}.get(name)
        if name == "page_token":
            known = self._learned.page_tokens
        if known is not None:
            return self._bent(random.choice(known)) if known else ""
        texts = {"namespace": NAMESPACES, "queue": QUEUES, "traceparent": (f"00-{'a' * 32}-{'b' * 16}-01",)}
        if name in texts:
            return random.choice(texts[name])
        return "" if name == "ordering_key" else f"{name[:3]}{random.randrange(300)}"

    def _bent(self, text: str) -> str:
        """Sometimes with one character changed."""
        if not text or self.random.random() < 0.9:
            return text
        at = self.random.randrange(len(text))
        return text[:at] + self.random.choice("Aa0-_=é") + text[at + 1 :]

    def _bytes(self, name: str) -> bytes:
        if self._is_wild():
            return self.random.randbytes(self.random.choice(_LENGTHS))
        if name in ("ack_tokens", "resume"):
            tokens = self._learned.ack_tokens
            return b"".join(self.random.choice(tokens) for _ in range(3)) if tokens else bytes(64)
        return self.random.randbytes(self.random.randrange(40))

    def _put_in_order(self, tasks: Any) -> None:  # noqa: ANN401
        """A range that is not empty."""
        tasks.start_time.FromMilliseconds(self.now_ms() - self.random.choice((0, 60_000, 7_200_000)))
        tasks.end_time.FromMilliseconds(self.now_ms() + self.random.choice((1_000, 300_000, 86_400_000 * 50)))

    def _choose(self, redrive: Any) -> None:  # noqa: ANN401
        """Ids or a range of a queue."""
        redrive.ClearField(self.random.choice(("queue", "task_ids")))
        for name in ("start_time", "end_time"):
            redrive.ClearField(name)

    def _fit_lengths(self, columns: Any) -> None:  # noqa: ANN401
        """As many lengths as tasks, and as many bytes as they say."""
        count = len(columns.fire_at_ms) or len(columns.delay_ms)
        if columns.fire_at_ms:
            del columns.delay_ms[:]
        lengths = [self.random.randrange(20) for _ in range(count)]
        columns.payload_lengths[:] = lengths
        columns.payloads = self.random.randbytes(sum(lengths))
