"""How ten slots are shared between customers, beside what people use: a noisy customer, and a target that hangs."""
