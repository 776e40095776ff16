"""`jaxsim ratio`: how many accelerators should prefill and how many decode, or should all do both?"""

import argparse
from typing import Any

from jaxsim.cli.answers import Progress, tell
from jaxsim.cli.options import add_answer, add_extent, add_scenario, scenario_of, share
from jaxsim.cli.parser import whole_number, whole_numbers

_DESCRIPTION = """\
The split of a budget of accelerators into prefill and decode instances that bears the highest arrival rate under the
scenario's slo, against colocated instances that prefill in chunks; and what gives way first in each: a queue, the link,
memory, or the iterations. The scenario says how KV caches are transferred (cluster.kv_transfer) and what instances are
like: one group of unified instances, tried in every role, or one of prefill and one of decode instances; their counts
do not matter.
"""

_EXAMPLE = """\
examples:
  jaxsim ratio examples/disaggregated.yaml --accelerators 8 --out results
  jaxsim ratio examples/disaggregated.yaml --accelerators 8 --chunks 512,2048 --precision 3%
  jaxsim ratio examples/disaggregated.yaml --accelerators 8 --layouts 1,2,4
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "ratio", help="the best prefill:decode split of a budget", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    add_scenario(parser)
    parser.add_argument("--accelerators", metavar="N", type=whole_number, required=True, help="the budget")
    parser.add_argument(
        "--layouts",
        metavar="N,N,...",
        type=whole_numbers,
        help="values of latency.tensor_parallel to try in each role; every further number of instances takes half a "
        "minute to compile (default: the scenario's)",
    )
    parser.add_argument(
        "--chunks",
        metavar="N,N,...",
        type=whole_numbers,
        help="token budgets to try for colocated instances (default: the scheduler's)",
    )
    parser.add_argument(
        "--precision",
        metavar="SHARE",
        type=share,
        default=0.05,
        help="half-width of the 95%% interval of the rates of the best (default: 5%%)",
    )
    add_extent(parser, "leaves out the first fifth of each run")
    add_answer(parser)
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    def analyse(progress: Progress) -> Any:
        from jaxsim.analysis.ratio import MAX_REQUESTS, ratio

        return ratio(
            scenario_of(args),
            args.accelerators,
            layouts=args.layouts,
            chunks=args.chunks,
            precision=args.precision,
            horizon=args.horizon,
            max_requests=args.max_requests or MAX_REQUESTS,
            progress=progress,
        )

    return tell(args, analyse, "ratio")
