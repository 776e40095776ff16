"""Settings of every test: hypothesis has no deadlines (compiling takes time) and, in CI, always the same examples.

XLA has one thread, as in jaxsim's own processes (`jaxsim.cli.process`): a test is run on every core already.
"""

import os

from hypothesis import settings

os.environ["NPROC"] = "1"  # before JAX starts

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
