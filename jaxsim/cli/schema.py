"""`jaxsim schema`: what a scenario file may say, as JSON Schema."""

import argparse
import json
from typing import Any

from jaxsim.cli.exit_codes import OK

_DESCRIPTION = """\
Print the JSON Schema (draft 2020-12) of scenario files: every section, kind and key with its meaning, unit and default.
Editors use it to complete and check scenario files.
"""

_EXAMPLE = """\
example:
  jaxsim schema > scenario.schema.json
  then, as the first line of a scenario: # yaml-language-server: $schema=scenario.schema.json
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "schema", help="print the JSON Schema of scenario files", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    from jaxsim.config.json_schema import scenario_schema

    print(json.dumps(scenario_schema(), indent=2))
    return OK
