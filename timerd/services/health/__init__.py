"""Whether this instance does what it is for, and who is told."""
