"""What is decided of webhooks: how a request is signed, where it may go, what its answer means, when to pause."""
