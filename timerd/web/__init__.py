"""The services for callers that speak HTTP."""
