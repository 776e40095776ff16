"""`jaxsim sweep`: the same workload under every combination of some keys' values."""

import argparse
from typing import Any

from jaxsim.cli.answers import Progress, tell
from jaxsim.cli.options import add_answer, add_scenario, add_seeds, scenario_of

_DESCRIPTION = """\
Simulate a scenario under all combinations of values of some keys, on the same requests: a table with a row per point,
and the Pareto front of goodput per accelerator against a latency. Ctrl-C keeps the points that had finished.
"""

_EXAMPLE = """\
examples:
  jaxsim sweep examples/chat.yaml --vary scheduler.max_num_batched_tokens=512,2048 --vary scheduler.max_num_seqs=32,64
  jaxsim sweep examples/chat.yaml --vary workload.arrivals.rate=2,4,8 --seeds 64 --out results --table parquet
"""


def add_to(commands: Any) -> None:
    """Add the command to the subparsers of `jaxsim`."""
    parser = commands.add_parser(
        "sweep", help="all combinations of some keys' values", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    add_scenario(parser)
    parser.add_argument(
        "--vary",
        metavar="KEY=V1,V2,...",
        action="append",
        required=True,
        help="a key of the scenario and its values, as YAML; may be repeated",
    )
    parser.add_argument(
        "--zip", action="store_true", help="take first values together, then second ones, instead of all combinations"
    )
    parser.add_argument(
        "--latency", metavar="NAME", default="ttft_s.p99", help="latency of the Pareto front (default: ttft_s.p99)"
    )
    parser.add_argument(
        "--statistic",
        metavar="NAME",
        action="append",
        default=[],
        help="a further column of the table, such as ttft_s.p99.9 or itl_s.p99; may be repeated",
    )
    add_seeds(parser)
    parser.add_argument(
        "--ray", metavar="ADDRESS", help="run on a Ray cluster: its address, or local (needs jaxsim-serving[ray])"
    )
    add_answer(parser)
    parser.set_defaults(execute=_execute)


def _execute(args: argparse.Namespace) -> int:
    def analyse(progress: Progress) -> Any:
        from jaxsim.analysis.sweep import sweep
        from jaxsim.config.text import parse_yaml

        vary = {}
        for text in args.vary:
            key, equals, values = text.partition("=")
            if not (key and equals and values):
                raise ValueError(f"--vary {text}: must be KEY=V1,V2,..., such as scheduler.max_num_seqs=64,128")
            vary[key] = parse_yaml(f"[{values}]", f"--vary {text}")
        how: Any = "zip" if args.zip else "grid"
        return sweep(
            scenario_of(args),
            vary,
            how=how,
            latency=args.latency,
            statistics=args.statistic,
            ray=args.ray,
            progress=progress,
        )

    return tell(args, analyse, "sweep")
