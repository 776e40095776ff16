"""`jaxsim init`: a scenario file to start from."""

import argparse
import sys
from pathlib import Path
from typing import Any

from jaxsim.cli.exit_codes import OK

_DESCRIPTION = """\
Write a commented scenario file that is ready to run. It never replaces a file without --force.
"""

_EXAMPLE = """\
examples:
  jaxsim init
  jaxsim init rag.yaml --preset rag
  jaxsim init - --preset code > code.yaml
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "init", help="write a scenario file to start from", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="scenario.yaml", help="default: scenario.yaml; -: standard output"
    )
    parser.add_argument("--preset", metavar="NAME", default="chat", help="its workload (see: jaxsim presets)")
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    from jaxsim.config.presets import chosen
    from jaxsim.config.starter import starter

    chosen(args.preset)
    if args.file == "-":
        sys.stdout.write(starter(args.preset, "FILE"))
        return OK
    path = Path(args.file)
    if path.exists() and not args.force:
        raise ValueError(f"{path} is there already; --force replaces it")
    path.write_text(starter(args.preset, args.file), encoding="utf-8")
    print(f"wrote {path}: try jaxsim run {path}")
    return OK
