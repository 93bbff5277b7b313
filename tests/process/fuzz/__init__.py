"""Messages of every kind against a running server: nothing that comes over the wire may break a promise."""
