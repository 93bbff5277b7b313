"""Boarding reminders for every flight that left New York City in 2013, on a running timerd: see README.md."""
