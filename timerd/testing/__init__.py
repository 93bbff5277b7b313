"""What is shipped for tests: of timerd itself, and of what is built on it."""
