"""The error that every reader of traces raises."""


class TraceError(ValueError):
    """A trace that cannot be used; the message names the file, the row and column at fault, and what is valid."""
