"""Settings of every test: hypothesis has no deadlines (compiling takes time) and, in CI, always the same examples."""

import os

from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
