"""`jaxsim report`: pictures of a run that has been written."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxsim.cli.exit_codes import OK
from jaxsim.cli.outputs import add_outputs, check_outputs, wants_outputs, write_outputs

if TYPE_CHECKING:
    from jaxsim.config.schema import Scenario
    from jaxsim.result import Result

_DESCRIPTION = """\
Make the report, pictures, a timeline or metrics of a run that jaxsim run --out has written, without running it again
(but for its first seed, whose batches the report and the timeline show, and for what outages cost, if it had any).
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
    for line in write_outputs(result, args, _scenario_of(result)):
        print(f"wrote {line}")
    return OK


def _scenario_of(result: "Result") -> "Scenario | None":
    """What was simulated, if it can be simulated again: its files may be gone, or the requests were given as arrays."""
    from jaxsim.config.io import parse_scenario

    if result.requests is None or "requests" in result.manifest.get("input_hashes", {}):
        return None
    try:
        return parse_scenario(result.manifest["scenario"])
    except (ValueError, OSError):
        return None
