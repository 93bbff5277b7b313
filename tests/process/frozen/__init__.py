"""A server whose disk can be frozen and thawed."""
