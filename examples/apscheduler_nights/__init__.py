"""A nightly job of APScheduler in two processes, over both changes of the clock (README.md)."""
