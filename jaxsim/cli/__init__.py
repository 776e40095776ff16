"""The `jaxsim` command. Nothing here imports JAX before a command runs: `jaxsim --help` answers at once."""
