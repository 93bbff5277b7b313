"""What people would use instead of timerd, measured beside it: `python -m benchmarks.peers`.

Each peer is an adapter of two small parts: a server that is started (`servers.py`) and a client process that schedules,
cancels and receives (`clients/`). timerd is measured by the same rows through its own SDK.
"""
