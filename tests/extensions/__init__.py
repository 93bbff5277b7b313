"""Extensions of delivery that are not shipped: each is one file here and one line of wiring, and keeps the contract."""
