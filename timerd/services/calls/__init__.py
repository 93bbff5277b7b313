"""The calls of the API, from message to verb and back."""
