"""Redis (or Valkey) as a second way for hints: publish and subscribe, nothing is kept there."""
