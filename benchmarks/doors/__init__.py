"""The two front doors beside each other, under callers in Go."""
