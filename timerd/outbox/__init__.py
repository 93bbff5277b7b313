"""The transactional outbox: rows that an application writes in its own transaction, on their way to tasks.

Read in this order: `rows.py` (what stands in the table), `sealing.py` and `outcomes.py` (what decides, without I/O),
`ports.py`, `sealed_keys.py`, `in_hand.py` and `held_up.py` (what waits for what), `relay.py` (what acts), and the
adapters `postgres.py`, `mysql.py` and `sqlite.py`. The rules X1 to X6 are those of `tests/models/outbox.pml`.
"""
