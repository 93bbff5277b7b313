"""A shop with FastAPI that reminds of orders which are not paid (README.md)."""
