"""Tests of the asyncio shells: the API, delivery, the engine."""
