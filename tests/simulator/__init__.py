"""The simulator: services and the core under virtual time, with faults by seed (docs/understand/architecture.md)."""
