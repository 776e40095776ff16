"""`python -m jaxsim` is the `jaxsim` command."""

import sys

from jaxsim.cli.main import main

sys.exit(main())
