"""A sink for each queue whose tasks are appended to a stream: what the stream has taken is acknowledged."""
