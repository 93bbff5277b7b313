"""Do the tests fail when the code is wrong? `python -m tests.mutants` makes timerd wrong in one line and looks."""
