"""Figures of a cluster: what timerd adds to a Cassandra node, what it asks of it. `python -m benchmarks.cluster`."""
