"""What the process tells the shell."""

OK = 0
BAD_INPUT = 2
INCOMPLETE = 3
INTERRUPTED = 130
