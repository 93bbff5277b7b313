"""What is said of deliveries that ended by themselves, and of tokens that settle nothing."""

from __future__ import annotations

from timerd.core.dispatch.settlement import PENDING, Refusal
from timerd.model.attempts import AttemptEnd

NOT_SETTLED = {
    AttemptEnd.TIMED_OUT: "attempt timed out: it was not settled in its attempt_timeout",
    AttemptEnd.STALLED: "stalled: its handler said no progress for its stall_timeout",
    AttemptEnd.LEASE_ENDED: "lease ended: the worker did not extend it in time",
}
LOST = "lease ended: the worker's stream broke and did not come back in time"
RELEASED = "the worker stopped before it had begun"
SENT_AGAIN = Refusal("This delivery is over: another worker has its task by now. Nothing was changed.", PENDING)
UNBEGUN = Refusal(
    "This delivery is over: it was given back unbegun, and its task waits to be sent. Nothing was changed.", PENDING
)
FORGED = Refusal("This ack token was not made by this service. Send back the tokens of a Deliver message as they came.")
