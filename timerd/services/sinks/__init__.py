"""What sinks with a target have in common: the file that names targets, credit, what a receiver is told."""
