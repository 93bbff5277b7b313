"""The simulator with several instances: the same callers, workers and judge, and a network between all of them."""
