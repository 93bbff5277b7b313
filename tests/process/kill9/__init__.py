"""kill -9 under load, judged by the logs of those who called and those who received."""
