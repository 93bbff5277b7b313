"""Roles as a line of the file of principals names them: for the whole server, for a namespace, for a queue of it.

schedule                     in every namespace
schedule@shop                in the namespace shop
operate@team-*               in each namespace whose name begins with team-
work@shop/mails,work@*/eu.*  of some queues only
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

SCHEDULE, WORK, VIEW, INSPECT, OPERATE = "schedule", "work", "view", "inspect", "operate"
ROLES = (SCHEDULE, WORK, VIEW, INSPECT, OPERATE)
EVERY = "*"
_NAMESPACES = re.compile(r"[A-Za-z0-9._*-]{1,64}")
# Of a namespace or a queue.
_MOST_CHARS = 128
_QUEUES = re.compile(r"[A-Za-z0-9._/:*-]{1,128}")
FORM = (
    f"write one of {', '.join(ROLES)}, alone or with a namespace as in schedule@shop; work takes a queue as well, as "
    "in work@shop/mails; * stands for any characters"
)


class Role(NamedTuple):
    """What a caller may do, and where. `*` in `namespaces` and `queues` stands for any characters."""

    name: str
    namespaces: str = EVERY
    queues: str = EVERY

    def is_for(self, namespace: str | None, queue: str | None) -> bool:
        """None as a namespace: the server as a whole. None as a queue: whichever."""
        if namespace is None:
            return self.namespaces == EVERY and self.queues == EVERY
        return _matches(self.namespaces, namespace) and (queue is None or _matches(self.queues, queue))

    def __str__(self) -> str:
        if self.queues != EVERY:
            return f"{self.name}@{self.namespaces}/{self.queues}"
        return self.name if self.namespaces == EVERY else f"{self.name}@{self.namespaces}"


def parse_roles(text: str) -> frozenset[Role]:
    """Of a line, with commas between them. Raises ValueError, which names the one that is wrong."""
    return frozenset(map(_parse_role, text.split(",")))


def _parse_role(text: str) -> Role:
    name, at, place = text.partition("@")
    namespaces, slash, queues = place.partition("/")
    is_place = not at or _NAMESPACES.fullmatch(namespaces)
    is_queue = not slash or (name == WORK and _QUEUES.fullmatch(queues))
    if name not in ROLES or not is_place or not is_queue:
        raise ValueError(text)
    return Role(name, namespaces or EVERY, queues or EVERY)


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, text.split(EVERY))))


def _matches(pattern: str, name: str) -> bool:
    """A name that is too long to be one matches nothing else: it has not been looked at yet."""
    return pattern == EVERY or (len(name) <= _MOST_CHARS and _pattern(pattern).fullmatch(name) is not None)


__all__ = ["EVERY", "FORM", "INSPECT", "OPERATE", "ROLES", "Role", "SCHEDULE", "VIEW", "WORK", "parse_roles"]
