"""How fast, how late, how large: measured against a real `timerd serve`, by `python -m benchmarks` or `make bench`."""
