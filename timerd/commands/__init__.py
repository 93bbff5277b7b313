"""The commands of `timerd`, one small module per group. Each imports what it needs when it runs, so help is quick."""
