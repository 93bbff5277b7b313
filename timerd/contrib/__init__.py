"""What fits timerd to other libraries. Each module needs the library that it is named after, and nothing imports it."""
