"""What sinks decide about the place that they deliver to."""
