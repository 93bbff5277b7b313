"""What every call passes: who it is, what it may, what it is told when it goes wrong."""
