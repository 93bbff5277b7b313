"""Calls that want one key go one after the other, also where one of them is given up in line."""

from __future__ import annotations

import asyncio

from timerd.model.registers import RegisterKey, name_key
from timerd.services.engine.key_lines import KeyLines

KEY, OTHER = name_key("default", "order-1"), name_key("default", "order-2")


async def test_who_is_behind_one_that_was_given_up_is_behind_those_before_it() -> None:
    lines, inside, done = KeyLines(), list[str](), asyncio.Event()

    async def call(name: str, *keys: RegisterKey) -> None:
        async with lines.place(keys):
            inside.append(name)
            await done.wait()
            inside.remove(name)

    wanted = {"a": [KEY], "b": [KEY, OTHER], "c": [OTHER, KEY]}
    calls = {name: asyncio.create_task(call(name, *keys)) for name, keys in wanted.items()}
    await turns()
    assert inside == ["a"]
    calls["b"].cancel()
    await turns()
    assert inside == ["a"]
    done.set()
    await calls["c"]
    await calls["a"]
    assert not len(lines)


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)
