"""A server that ends itself by SIGKILL at a named point, so that each instant which matters is met for certain."""
