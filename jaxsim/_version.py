"""The version of jaxsim."""

__version__ = "0.1.0"
