"""Ways over from what programs have already. Each part needs an extra of its own."""
