"""The verbs, on the partitions that are held and the store."""
