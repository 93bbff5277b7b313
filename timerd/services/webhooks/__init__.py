"""A sink for each target of webhooks: due tasks go out as requests, and their answers come back as settles."""
