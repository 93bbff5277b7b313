"""Values only: what every layer speaks of. No I/O, no clock, no randomness."""
