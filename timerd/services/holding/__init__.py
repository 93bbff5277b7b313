"""Which partitions this instance holds, and what their machines decide, done."""
