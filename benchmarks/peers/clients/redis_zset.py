"""Redis as people build it by hand: a sorted set by due time, payloads in a hash, Lua that takes many with a lease.

What was taken waits in a second sorted set until it is acknowledged, and comes back when its lease ends.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import redis

from benchmarks.peers.clients.talk import Client, Enter, Task, obey

LEASE_MS = 5_000
REAP_EVERY_S = 1.0
STORE = """
for i = 1, #ARGV, 3 do
  redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 2])
  redis.call('ZADD', KEYS[1], ARGV[i + 1], ARGV[i])
end
"""
# Lua hands on at most some 8,000 values at once, and with a lease each task is two.
TAKE = """
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
local bodies = {}
for first = 1, #ids, 3000 do
  local last = math.min(first + 2999, #ids)
  redis.call('ZREM', KEYS[1], unpack(ids, first, last))
  local leases = {}
  for i = first, last do leases[#leases + 1] = ARGV[2]; leases[#leases + 1] = ids[i] end
  redis.call('ZADD', KEYS[3], unpack(leases))
  bodies[#bodies + 1] = redis.call('HMGET', KEYS[2], unpack(ids, first, last))
end
return {ids, bodies}
"""
REAP = """
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[1], 'LIMIT', 0, 1000)
for _, id in ipairs(ids) do redis.call('ZREM', KEYS[2], id); redis.call('ZADD', KEYS[1], ARGV[1], id) end
return #ids
"""


class RedisZset(Client):
    """`batch` tasks are stored, `fetch` taken at once; nothing due is looked for again after `poll_ms`."""

    def __init__(self, target: str, options: Mapping[str, Any]) -> None:
        super().__init__(target, options)
        host, _, port = target.partition(":")
        self._redis: Any = redis.Redis(host, int(port))
        self._store, self._take, self._reap = map(self._redis.script_load, (STORE, TAKE, REAP))

    def store(self, tasks: Sequence[Task]) -> list[Any]:
        """Large messages as two commands of many members; a single one as a script, so that it is one step."""
        if len(tasks) == 1:
            self._redis.evalsha(self._store, 2, "due", "body", *tasks[0])
            return [tasks[0].id]
        both = self._redis.pipeline(transaction=False)
        both.hset("body", mapping={task.id: task.payload for task in tasks})
        both.zadd("due", {task.id: task.due_ms for task in tasks})
        both.execute()
        return [task.id for task in tasks]

    def cancel(self, ids: Sequence[Any]) -> int:
        both = self._redis.pipeline(transaction=False)
        both.zrem("due", *ids)
        both.hdel("body", *ids)
        return int(both.execute()[0])

    def count(self) -> int:
        return int(self._redis.zcard("due"))

    def consume(self, enter: Enter) -> None:
        fetch, poll_s = int(self.options.get("fetch", 500)), float(self.options.get("poll_ms", 1)) / 1e3
        reap_s = time.monotonic() + REAP_EVERY_S
        done = self._redis.pipeline(transaction=False)
        while True:
            now_ms = time.time_ns() // 1_000_000
            done.evalsha(self._take, 3, "due", "body", "lease", now_ms, now_ms + LEASE_MS, fetch)
            ids, bodies = done.execute()[-1]
            if not ids:
                time.sleep(poll_s)
            else:
                for some in bodies:
                    enter(some)
                # Sent together with the next take.
                done.zrem("lease", *ids)
                done.hdel("body", *ids)
            if time.monotonic() > reap_s:
                self._redis.evalsha(self._reap, 2, "due", "lease", now_ms)
                reap_s = time.monotonic() + REAP_EVERY_S


if __name__ == "__main__":
    obey(RedisZset)
