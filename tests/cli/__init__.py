"""The command line as its users meet it: what it prints, what it refuses, and how it ends."""
