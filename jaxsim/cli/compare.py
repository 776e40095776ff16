"""`jaxsim compare`: two scenarios on the same requests."""

import argparse
from typing import Any

from jaxsim.cli.answers import Progress, tell
from jaxsim.cli.options import add_answer, add_scenario, add_seeds, add_statistics, scenario_of, share

_DESCRIPTION = """\
How a second scenario differs from the first when both serve the same requests, with the interval of each difference and
how many times as many unpaired seeds it would have taken. Without a second file, the second scenario is the first with
the keys of --with set.
"""

_EXAMPLE = """\
examples:
  jaxsim compare examples/chat.yaml --with scheduler.max_num_batched_tokens=4096
  jaxsim compare examples/chat.yaml other.yaml --statistic ttft_s.p99 --statistic goodput --precision 1%
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "compare", help="the difference between two scenarios", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    add_scenario(parser)
    parser.add_argument("other", metavar="OTHER", nargs="?", help="file of the second scenario")
    parser.add_argument(
        "--with",
        metavar="KEY=VALUE",
        dest="changes",
        action="append",
        default=[],
        help="change a key of the second scenario; may be repeated",
    )
    add_seeds(parser)
    add_statistics(parser, "TTFT, TPOT and E2E, mean and P99")
    parser.add_argument(
        "--precision", metavar="SHARE", type=share, help="add seeds until every change is known to this, such as 1%%"
    )
    add_answer(parser)
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    if not args.other and not args.changes:
        raise ValueError("compare needs a second scenario: a file, or --with KEY=VALUE")

    def analyse(progress: Progress) -> Any:
        from jaxsim.analysis.compare import STATISTICS, compare
        from jaxsim.config.io import load_scenario

        first = scenario_of(args)
        second = load_scenario(args.other or args.scenario, [*args.set, *args.changes])
        return compare(first, second, args.statistic or STATISTICS, precision=args.precision, progress=progress)

    return tell(args, analyse, "compare")
