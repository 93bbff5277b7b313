"""The whole protocol against an oracle that knows only what callers and workers were told (tests/property/world.py).

No task that was stored is lost, none is delivered before its instant, after CANCELLED or after its confirmed ack, none
twice without a crash; marks never go down; the ledger balances when everything is finished.
"""

from __future__ import annotations

from hypothesis import settings

from tests.property.service_model import HandedOn, ServiceModel, WithoutCursors

TestWithoutCursors = WithoutCursors.TestCase
TestWithoutCursors.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
TestHandedOn = HandedOn.TestCase
TestHandedOn.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestService = ServiceModel.TestCase
TestService.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
