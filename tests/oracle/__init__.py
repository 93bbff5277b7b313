"""What schedules mean, decided by brute force: nothing here is shared with `timerd.core.recurrence`."""
