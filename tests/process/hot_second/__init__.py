"""Millions of tasks due at one second for one queue with two slow workers, while another queue's tasks stay on time."""
