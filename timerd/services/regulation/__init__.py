"""Rules of queues: read, changed, told to the other instances, and shown to operators."""
