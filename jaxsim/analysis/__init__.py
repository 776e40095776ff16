"""Answers rather than runs: how sure, how much, which knob, which estimate is enough. One question a file."""
