"""What instances ask and tell each other."""
