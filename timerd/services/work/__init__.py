"""Deliveries: to workers of this instance and, through their home, to those of others."""
