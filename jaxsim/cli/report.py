"""`jaxsim report`: pictures of a run that has been written."""

import argparse
from pathlib import Path
from typing import Any

from jaxsim.cli.exit_codes import OK
from jaxsim.cli.outputs import add_outputs, check_outputs, wants_outputs, write_outputs

_DESCRIPTION = """\
Make the report, pictures, a timeline or metrics of a run that jaxsim run --out has written, without running it again.
"""

_EXAMPLE = """\
examples:
  jaxsim report results                                  # writes results/report.html
  jaxsim report results --report chat.html --plots plots --plot-format svg
  jaxsim report results --timeline trace.json --metrics metrics.prom
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "report", help="page, pictures and timeline of a run", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    parser.add_argument("results", metavar="RESULTS", type=Path, help="folder that jaxsim run --out wrote")
    add_outputs(parser)
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    from jaxsim.result import load_result

    check_outputs(args)
    result = load_result(args.results)
    if not wants_outputs(args):
        args.report = args.results / "report.html"
    for line in write_outputs(result, args):
        print(f"wrote {line}")
    return OK
