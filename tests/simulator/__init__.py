"""The simulator: the services and the core under virtual time, with faults by seed. See docs/architecture.md."""
