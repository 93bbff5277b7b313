"""What every store must keep, as pytest classes: subclass them and give a fixture `store`.

    class TestMyStore(
        RowsContract,
        StretchContract,
        SpreadContract,
        SettleContract,
        EntriesContract,
        DeadLettersContract,
        RegistersContract,
        TraitsContract,
    ):
        @pytest_asyncio.fixture
        async def store(self) -> AsyncIterator[Store]:
            store = MyStore(...)
            yield store
            await store.close()

Each test gets a store of its own that holds nothing.
"""

import pytest

# So that a failed assertion says what the values were, as in one's own tests.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in ("entries", "dead_letters", "registers", "rows", "settle", "spread", "stretches", "traits")
    )
)

from timerd.testing.contracts.dead_letters import DeadLettersContract  # noqa: E402
from timerd.testing.contracts.entries import EntriesContract  # noqa: E402
from timerd.testing.contracts.registers import RegistersContract  # noqa: E402
from timerd.testing.contracts.rows import RowsContract  # noqa: E402
from timerd.testing.contracts.settle import SettleContract  # noqa: E402
from timerd.testing.contracts.spread import SpreadContract  # noqa: E402
from timerd.testing.contracts.stretches import StretchContract  # noqa: E402
from timerd.testing.contracts.traits import TraitsContract  # noqa: E402

__all__ = [
    "EntriesContract",
    "DeadLettersContract",
    "RegistersContract",
    "RowsContract",
    "SettleContract",
    "SpreadContract",
    "StretchContract",
    "TraitsContract",
]
