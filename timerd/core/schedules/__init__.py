"""Recurring schedules: the chain of ticks that creates their tasks, and the calls that change them."""
