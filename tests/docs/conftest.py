"""The server of these tests is a process, as a user starts it."""

from tests.process.conftest import children, server

__all__ = ["children", "server"]
