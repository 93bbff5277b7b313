"""Half an hour under load with a kill a minute: what grows, and whether every promise holds meanwhile."""
