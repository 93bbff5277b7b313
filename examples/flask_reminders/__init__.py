"""A shop with Flask that reminds of orders which are not paid (README.md)."""
