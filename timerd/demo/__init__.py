"""`timerd demo`: the main job under a kill -9, judged from what the callers and the worker wrote down themselves."""
