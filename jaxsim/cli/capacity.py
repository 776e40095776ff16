"""`jaxsim capacity`: the highest rate, or the cheapest fleet, that keeps the SLO."""

import argparse
from typing import Any

from jaxsim.cli.answers import Progress, tell
from jaxsim.cli.options import add_answer, add_extent, add_scenario, scenario_of, share

_DESCRIPTION = """\
The highest arrival rate at which the fleet keeps every promise of the scenario's slo, with a confidence interval and
the goodput curve; or, with --vary instances, the counts of the instance groups that cost least at the scenario's rate
or under its trace. Runs are made longer until the answer does not depend on their length.
"""

_EXAMPLE = """\
examples:
  jaxsim capacity examples/chat.yaml --out results
  jaxsim capacity examples/chat.yaml --set slo.attainment=0.99 --precision 1%
  jaxsim capacity examples/chat.yaml --vary instances --set workload.arrivals.rate=60
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "capacity", help="highest rate or fewest instances that keep the SLO", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    add_scenario(parser)
    parser.add_argument(
        "--vary", choices=("rate", "instances"), default="rate", help="what is looked for (default: rate)"
    )
    parser.add_argument(
        "--precision",
        metavar="SHARE",
        type=share,
        default=0.02,
        help="half-width of the 95%% interval of the rate (default: 2%%)",
    )
    add_extent(parser, "leaves out the first fifth of each run and lengthens runs")
    add_answer(parser)
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    def analyse(progress: Progress) -> Any:
        from jaxsim.analysis.capacity import MAX_REQUESTS, capacity

        return capacity(
            scenario_of(args),
            args.vary,
            precision=args.precision,
            horizon=args.horizon,
            max_requests=args.max_requests or MAX_REQUESTS,
            progress=progress,
        )

    return tell(args, analyse, "capacity")
