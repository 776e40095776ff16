"""The fleet around the engines: which instance serves which request."""
