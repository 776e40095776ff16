"""`jaxsim queueing`: closed forms of a scenario."""

import argparse
from typing import Any

from jaxsim.cli.answers import Progress, tell
from jaxsim.cli.options import add_answer, add_scenario, add_seeds, scenario_of

_DESCRIPTION = """\
Mean latencies and the stability limit of a scenario from queueing theory and a mean-field model of continuous batching,
in milliseconds. With --simulate, the error of each against the simulation. Closed forms give no percentiles.
"""

_EXAMPLE = """\
examples:
  jaxsim queueing examples/chat.yaml
  jaxsim queueing examples/chat.yaml --simulate --set workload.arrivals.rate=8 --out results
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "queueing", help="closed forms: means and the stability limit", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    add_scenario(parser)
    add_seeds(parser)
    parser.add_argument("--simulate", action="store_true", help="simulate too and show the error of every form")
    add_answer(parser)
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    def analyse(progress: Progress) -> Any:
        from jaxsim.analysis.queueing import queueing

        return queueing(scenario_of(args), simulate=args.simulate, progress=progress)

    return tell(args, analyse, "queueing")
