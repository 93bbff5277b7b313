"""Several instances on one Cassandra under load and faults, judged by the logs of those who called and received."""
