"""`jaxsim explain`: which fidelity is enough."""

import argparse
from typing import Any

from jaxsim.cli.answers import Progress, tell
from jaxsim.cli.options import add_answer, add_scenario, add_seeds, scenario_of

_DESCRIPTION = """\
Model one workload at every fidelity (fixed batch, initial batch, mean lengths, mean field, M/M/c, full simulation) and
show the error of each on TTFT and TPOT, mean and P99: when a cheap estimate is enough.
"""

_EXAMPLE = """\
examples:
  jaxsim explain examples/chat.yaml
  jaxsim explain examples/chat.yaml --set workload.arrivals.rate=10 --seeds 32 --out results
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "explain", help="when a cheap estimate is enough", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    add_scenario(parser)
    add_seeds(parser)
    add_answer(parser)
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    def analyse(progress: Progress) -> Any:
        from jaxsim.analysis.explain import explain

        return explain(scenario_of(args), progress=progress)

    return tell(args, analyse, "explain")
