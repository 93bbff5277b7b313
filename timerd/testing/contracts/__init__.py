"""What every store must keep, as pytest classes: subclass them and give a fixture `store`.

    class TestMyStore(RowsContract, SpreadContract, SettleContract, LettersContract, RegistersContract):
        @pytest_asyncio.fixture
        async def store(self) -> AsyncIterator[Store]:
            store = MyStore(...)
            yield store
            await store.close()

Each test gets a store of its own that holds nothing.
"""

import pytest

# So that a failed assertion says what the values were, as in one's own tests.
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in ("letters", "registers", "rows", "settle", "spread")))

from timerd.testing.contracts.letters import LettersContract  # noqa: E402
from timerd.testing.contracts.registers import RegistersContract  # noqa: E402
from timerd.testing.contracts.rows import RowsContract  # noqa: E402
from timerd.testing.contracts.settle import SettleContract  # noqa: E402
from timerd.testing.contracts.spread import SpreadContract  # noqa: E402

__all__ = ["LettersContract", "RegistersContract", "RowsContract", "SettleContract", "SpreadContract"]
