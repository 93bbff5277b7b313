"""Client processes of the peers. They run in an environment that has the peer's library, and nothing of timerd."""
