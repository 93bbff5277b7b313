"""Tests, by level: machines and values alone, stores by contract, then real processes."""
