"""`jaxsim sensitivity`: which knob matters."""

import argparse
from typing import Any

from jaxsim.cli.answers import Progress, tell
from jaxsim.cli.options import add_answer, add_scenario, add_seeds, scenario_of
from jaxsim.cli.parser import whole_number

_DESCRIPTION = """\
Rank the keys of a scenario by how much a statistic moves with them: elasticities at the scenario (percent per percent,
with intervals, a slower clock included), or Morris screening and Sobol indices over ranges.
"""

_EXAMPLE = """\
examples:
  jaxsim sensitivity examples/chat.yaml --statistic ttft_s.p99
  jaxsim sensitivity examples/chat.yaml --method morris --samples 8
  jaxsim sensitivity examples/chat.yaml --method sobol --vary workload.arrivals.rate=3:6 --vary latency.base_s=4e-3:6e-3
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "sensitivity", help="which keys a statistic moves with", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    add_scenario(parser)
    parser.add_argument(
        "--method",
        choices=("elasticity", "morris", "sobol"),
        default="elasticity",
        help="morris and sobol need jaxsim-serving[sensitivity] (default: elasticity)",
    )
    parser.add_argument(
        "--vary",
        metavar="KEY[=LOW:HIGH]",
        action="append",
        default=[],
        help="a key, with its range for morris and sobol (else 20%% to each side); may be repeated (default: all that "
        "can be turned)",
    )
    parser.add_argument("--statistic", metavar="NAME", default="ttft_s.p99", help="what moves (default: ttft_s.p99)")
    parser.add_argument(
        "--samples", metavar="N", type=whole_number, help="trajectories of morris (10), base samples of sobol (64)"
    )
    add_seeds(parser)
    add_answer(parser)
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    def analyse(progress: Progress) -> Any:
        from jaxsim.analysis.sensitivity import sensitivity

        return sensitivity(
            scenario_of(args),
            _vary(args.vary),
            method=args.method,
            statistic=args.statistic,
            samples=args.samples,
            progress=progress,
        )

    return tell(args, analyse, "sensitivity")


def _vary(texts: list[str]) -> Any:
    """Keys, or ranges by key; None for the default."""
    if not texts:
        return None
    ranges: dict[str, Any] = {}
    for text in texts:
        key, equals, ends = text.partition("=")
        try:
            ranges[key] = tuple(float(end) for end in ends.split(":")) if equals else None
        except ValueError:
            ranges[key] = ()
        if ranges[key] is not None and len(ranges[key]) != 2:
            raise ValueError(f"--vary {text}: must be KEY or KEY=LOW:HIGH, such as workload.arrivals.rate=4:8")
    if all(ends is None for ends in ranges.values()):
        return list(ranges)
    without = [key for key, ends in ranges.items() if ends is None]
    if without:
        raise ValueError(f"--vary {without[0]}: needs a range, as other keys have one: {without[0]}=LOW:HIGH")
    return ranges
