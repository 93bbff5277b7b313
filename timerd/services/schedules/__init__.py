"""Recurring schedules at run time: their calls, and the worker of their ticks."""
