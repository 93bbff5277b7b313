"""A nightly report in Berlin at 02:30, over both changes of the clock (README.md)."""
