"""Scenarios: what a file may say, how it is read, checked and written back."""
