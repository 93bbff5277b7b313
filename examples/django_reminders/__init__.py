"""A shop with Django that reminds of orders which are not paid (README.md)."""
